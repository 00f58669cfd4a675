"""Bash with parts of the agent's image sourced, a stand-in for the proxy, two network namespaces joined by a wire."""

from __future__ import annotations

import contextlib
import http.server
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "images" / "agent"
STRICT = "set -Eeuo pipefail; shopt -s inherit_errexit; "
PROXY = "198.51.100.2:8080"
PEER_LISTENS = ("198.51.100.2:8080", "198.51.100.2:22", "203.0.113.131:443", "2001:db8::1:443")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A strict bash with parts of images/agent/lib sourced, whose home is a scratch directory."""

    home: Path
    image: Path = IMAGE
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __call__(self, parts: str, script: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Source the parts named, run the script."""
        sources = "".join(f"source {self.image}/lib/{part}.sh; " for part in parts.split())
        return self.run("bash", "-c", STRICT + sources + script, check=check, **env)

    def within(self, **environment: str) -> Shell:
        """Return the same with more in its environment."""
        return replace(self, environment={**self.environment, **environment})

    def run(self, *argv: str | Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the same surroundings."""
        return subprocess.run(
            (*self.prefix, *argv),
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environment, **env},
            cwd=self.home,
            capture_output=True,
            text=True,
            check=check,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )


class Answers(http.server.BaseHTTPRequestHandler):
    """A stand-in for the proxy: answers every request with one status and our header, and records the requests."""

    status = 403
    verdict = "blocked"
    asked: tuple[str, ...] = ()

    def answer(self) -> None:
        """Deny, or answer as the test has configured."""
        type(self).asked += (f"{self.command} {self.path}",)
        self.send_response(self.status)
        self.send_header("x-agent-sandbox", self.verdict)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_CONNECT = answer  # noqa: N815 - the standard library's names

    @override
    def log_message(self, format: str, *args: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StandInProxy:
    """The address of the stand-in, and the requests that it got."""

    address: str
    answers: type[Answers]


@contextlib.contextmanager
def stand_in_proxy() -> Iterator[StandInProxy]:
    """Start a stand-in for the proxy on loopback."""
    answers = type("AnswersOfOneTest", (Answers,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield StandInProxy(address=f"127.0.0.1:{server.server_port}", answers=answers)
        server.shutdown()


LISTENER = """
import socket, sys, threading
def serve(server):
    while True:
        client, _ = server.accept()
        client.recv(4096)
        client.sendall(b"HTTP/1.0 403 Forbidden\\r\\nx-agent-sandbox: blocked\\r\\n\\r\\n")
        client.close()
for where in sys.argv[1:]:
    address, _, port = where.rpartition(":")
    server = socket.create_server((address, int(port)), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    threading.Thread(target=serve, args=(server,), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""


def namespace(*prefix: str) -> subprocess.Popen[str]:
    """Start a process in a new network namespace."""
    before = Path("/proc/self/ns/net").readlink()
    holder = subprocess.Popen((*prefix, "sleep", "600"), text=True)
    while Path(f"/proc/{holder.pid}/ns/net").readlink() == before or b"sleep" not in cmdline(holder.pid):
        time.sleep(0.01)
    return holder


def cmdline(pid: int) -> bytes:
    """Return the program that the process has become."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]


def listener(inside: tuple[str, ...], *addresses: str) -> subprocess.Popen[str]:
    """Start a server in a namespace, and wait until it listens."""
    server = subprocess.Popen((*inside, "python3", "-c", LISTENER, *addresses), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return server


def wire(agent: Shell, peer: int) -> None:
    """Join the two namespaces: without rules, the agent's reaches everything in the peer's."""
    agent.run(
        "bash",
        "-ec",
        f"""
        ip link set lo up
        ip link add wire type veth peer name wire netns {peer}
        ip address add 198.51.100.3/28 dev wire
        ip address add 2001:db8::2/64 dev wire nodad
        ip link set wire up
        ip route add default via 198.51.100.2
        nsenter --target {peer} --net bash -ec '
            ip link set lo up
            ip address add 198.51.100.2/28 dev wire
            ip address add 203.0.113.131/32 dev lo
            ip address add 2001:db8::1/64 dev wire nodad
            ip link set wire up
        '
        """,
    )


@contextlib.contextmanager
def wired_shell(home: Path) -> Iterator[Shell]:
    """Make a network namespace whose wire leads to a peer: the proxy, and an internet that would answer."""
    holder = namespace("unshare", "--user", "--map-root-user", "--net")
    enter = ("nsenter", "--target", str(holder.pid), "--user", "--preserve-credentials", "--net")
    peer = namespace(*enter, "unshare", "--net")
    agent = Shell(home=home, prefix=enter, environment=MappingProxyType({"AGENT_SANDBOX_PROXY": PROXY}))
    wire(agent, peer.pid)
    servers = [
        listener((*enter, "nsenter", "--target", str(peer.pid), "--net"), *PEER_LISTENS),
        listener(enter, "127.0.0.11:53"),
    ]
    yield agent
    for process in (*servers, peer, holder):
        process.kill()
        process.communicate()
