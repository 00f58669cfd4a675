"""The proxies to compare: ours, and each peer that is installed.

Each is led to the servers by their real ports: a client asks for `bench.test:PORT`, and that name is this machine. Ours
and mitmdump run in the proxy's image, with its Python, if a Docker engine answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.image import PYTHON
from benchmarks.servers import HOST, LAB, Server, drained, process

sys.path.insert(0, str(LAB))

from engine import engine_answers, proxy_image  # found just above

# First says which process it becomes, and when.
LAUNCH = 'echo "$$ $(date +%s.%N)"; exec "$@"'
REDIRECT = """
def server_connect(data):
    data.server.address = ("127.0.0.1", data.server.address[1])
"""
SQUID = """
http_port 127.0.0.1:{port} ssl-bump generate-host-certificates=on tls-cert={folder}/squid.pem
sslcrtd_program {helpers}/security_file_certgen -s {folder}/squid_certificates -M 4MB
sslcrtd_children 1
ssl_bump bump all
tls_outgoing_options cafile={folder}/ca.crt
hosts_file {folder}/hosts
http_access allow all
cache deny all
max_filedescriptors 8192
access_log daemon:{folder}/squid.log
cache_log /dev/null
pid_filename none
shutdown_lifetime 0 seconds
"""
SANDBOX_RUNTIME = "@anthropic-ai/sandbox-runtime"
RUNTIME = """
import dns from "node:dns";
const package_ = process.argv[2], authority = process.argv[3];
dns.lookup = (name, options, done) => {{
  const answer = typeof options === "function" ? options : done;
  options?.all ? answer(null, [{{ address: "127.0.0.1", family: 4 }}]) : answer(null, "127.0.0.1", 4);
}};
const {{ createHttpProxyServer }} = await import(package_ + "/dist/sandbox/http-proxy.js");
const {{ createMitmCA }} = await import(package_ + "/dist/sandbox/mitm-ca.js");
const {{ readFileSync }} = await import("node:fs");
const mitmCA = createMitmCA({{}});
const server = createHttpProxyServer({{
  filter: (port, host) => host === "{host}",
  filterRequest: () => ({{ action: "allow" }}),
  mitmCA,
  tlsTerminateUpstreamCA: readFileSync(authority),
}});
server.listen(0, "127.0.0.1", () =>
  console.log(JSON.stringify({{ port: server.address().port, ca: mitmCA.certPath }})));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the files of a run are, the ports that clients may ask for, and the image, if there is one."""

    folder: Path
    ports: Sequence[int]
    image: str = ""

    def python(self, *argv: str | Path) -> tuple[str | Path, ...]:
        """Return the command that runs Python with our package, in the image if there is one."""
        if not self.image:
            return ("sh", "-c", LAUNCH, "sh", sys.executable, *argv)
        mine = f"{os.getuid()}:{os.getgid()}"
        return (
            "docker", "run", "--rm", "--network=host", "--pid=host", f"--user={mine}", "--ulimit=nofile=8192",
            f"--volume={self.folder}:{self.folder}", "--env=PYTHONPATH=/opt/agent-sandbox/package",
            "--entrypoint=sh", self.image, "-c", LAUNCH, "sh", PYTHON, *argv,
        )  # fmt: skip


@contextlib.contextmanager
def launched(*argv: str | Path) -> Iterator[tuple[subprocess.Popen[str], int, float]]:
    """Run what begins with `LAUNCH`; hand out the process, its number, and when it began."""
    with process(*argv) as running:
        assert running.stdout is not None  # noqa: S101
        pid, began = running.stdout.readline().split()
        yield running, int(pid), float(began)


@contextlib.contextmanager
def ours(place: Place) -> Iterator[Server]:
    """Run our proxy."""
    policy, state = place.folder / "policy.yaml", place.folder / "state"
    ports = [*place.ports]
    policy.write_text(f"version: 1\ndomains: [{{host: {HOST}, ports: {ports}}}]\n")
    command = place.python(
        "-P", "-m", "agent_sandbox.proxy", "run", "--policy", policy, "--listen", "127.0.0.1:0", "--state", state,
        "--upstream-ca", place.folder / "ca.crt", *(f"--resolve={HOST}:{port}:127.0.0.1:{port}" for port in ports),
    )  # fmt: skip
    with launched(*command) as (running, pid, began):
        ready = json.loads(running.stdout.readline()) if running.stdout else {}
        took = time.time() - began
        with drained(running):
            port = int(ready["listening"].rpartition(":")[2])
            yield Server(pid=pid, port=port, ca=Path(ready["ca"]), started_in=took)


@contextlib.contextmanager
def mitmdump(place: Place) -> Iterator[Server]:
    """Run plain mitmdump of the same version."""
    script, state, port = place.folder / "redirect.py", place.folder / "mitmdump", free_port()
    script.write_text(REDIRECT)
    program = "from mitmproxy.tools.main import mitmdump; mitmdump()"
    settings = (f"confdir={state}", f"ssl_verify_upstream_trusted_ca={place.folder / 'ca.crt'}")
    flags = [part for setting in settings for part in ("--set", setting)]
    command = place.python(
        "-P", "-c", program, "-q", "--listen-host", "127.0.0.1", "-p", str(port), "-s", script, *flags
    )
    with launched(*command) as (_, pid, began):
        wait_for(port)
        yield Server(pid=pid, port=port, ca=state / "mitmproxy-ca-cert.pem", started_in=time.time() - began)


@contextlib.contextmanager
def squid(place: Place) -> Iterator[Server]:
    """Run squid as it comes with Debian, which bumps every connection and caches nothing."""
    folder, port = place.folder, free_port()
    helpers = Path("/usr/lib/squid")
    if not (folder / "squid.pem").exists():
        make_squid_files(folder, helpers)
    (folder / "squid.conf").write_text(SQUID.format(port=port, folder=folder, helpers=helpers))
    command = ("sh", "-c", LAUNCH, "sh", "squid", "-N", "-f", folder / "squid.conf")
    with launched(*command) as (_, pid, began):
        wait_for(port)
        yield Server(pid=pid, port=port, ca=folder / "squid.crt", started_in=time.time() - began)


def make_squid_files(folder: Path, helpers: Path) -> None:
    """Make the authority, the certificate cache and the table of hosts; squid reads them as its own user."""
    subject = ("-subj", "/CN=squid", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    made = ("-keyout", folder / "squid.key", "-out", folder / "squid.crt")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *made)
    subprocess.run(command, check=True, capture_output=True)
    (folder / "squid.pem").write_text((folder / "squid.crt").read_text() + (folder / "squid.key").read_text())
    (folder / "squid.pem").chmod(0o644)
    (folder / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    cache = folder / "squid_certificates"
    making = (helpers / "security_file_certgen", "-c", "-s", cache, "-M", "4MB")
    subprocess.run(making, check=True, capture_output=True)
    for path in (cache, *cache.rglob("*"), folder):
        path.chmod(0o777 if path.is_dir() else 0o666)


@contextlib.contextmanager
def sandbox_runtime(place: Place) -> Iterator[Server]:
    """Run the proxy of sandbox-runtime, with TLS terminated and a filter that allows every request."""
    script = place.folder / "runtime.mjs"
    script.write_text(RUNTIME.format(host=HOST))
    package = runtime_folder()
    command = ("sh", "-c", LAUNCH, "sh", "node", script, package or "", place.folder / "ca.crt")
    with launched(*command) as (running, pid, began):
        ready = json.loads(running.stdout.readline()) if running.stdout else {}
        yield Server(pid=pid, port=ready["port"], ca=Path(ready["ca"]), started_in=time.time() - began)


def runtime_folder() -> Path | None:
    """Return where npm has installed sandbox-runtime, None if it has not."""
    if not (shutil.which("npm") and shutil.which("node")):
        return None
    root = os.environ.get("SANDBOX_RUNTIME") or subprocess.run(
        ("npm", "root", "--global"), check=False, capture_output=True, text=True
    ).stdout.strip()  # fmt: skip
    folder = Path(root) / SANDBOX_RUNTIME
    return folder if folder.is_dir() else None


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    """Wait until somebody listens there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.002)
    raise TimeoutError(f"nothing listens on port {port}")


Start = Callable[[Place], AbstractContextManager[Server]]


def sides() -> dict[str, Start]:
    """Return what can be measured here, and say what was left out and why."""
    found: dict[str, Start] = {"lane": ours, "mitmdump": mitmdump}
    if shutil.which("squid") and Path("/usr/lib/squid/security_file_certgen").exists():
        found["squid"] = squid
    else:
        print("left out: squid, which is not installed with TLS (apt install squid-openssl)", file=sys.stderr)
    if runtime_folder():
        found["sandbox-runtime"] = sandbox_runtime
    else:
        print(f"left out: sandbox-runtime, which is not installed (npm install --global {SANDBOX_RUNTIME}, or"
              " SANDBOX_RUNTIME=.../node_modules)", file=sys.stderr)  # fmt: skip
    return found


def image() -> str:
    """Return the id of the proxy's image, empty if no Docker engine answers."""
    if not engine_answers():
        print("no Docker engine answers: our proxy and mitmdump run with this Python", file=sys.stderr)
        return ""
    command = ("docker", "image", "inspect", "--format={{.Id}}", proxy_image())
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
