"""The two proxies under measurement and the upstream behind them, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "bench.test"
LAB = Path(__file__).resolve().parents[1] / "tests" / "lab"
sys.path.insert(0, str(LAB))

CPUCLOCK_SCHED = 2  # with a process id, the number of that process's clock: clock_getcpuclockid(3)

# Other code, and then the proxy as its command starts it.
STARTING = """
import sys
{without}
import agent_sandbox.proxy.__main__ as program
program.leave(program.main())
"""

REDIRECT = """
def server_connect(data):
    data.server.address = ("127.0.0.1", {port})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running proxy: where it listens, the CA that clients trust, and how long it took to listen."""

    pid: int
    port: int
    ca: Path
    started_in: float

    def cpu(self) -> float:
        """Return the CPU seconds used so far, by all threads; /proc has them in hundredths alone."""
        return time.clock_gettime((~self.pid << 3) | CPUCLOCK_SCHED)

    def memory(self) -> float:
        """Return the resident memory, in MB."""
        line = next(
            line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith("VmRSS")
        )
        return int(line.split()[1]) / 1024

    def stop(self) -> float:
        """Stop the process; return the CPU seconds that it used in its whole life."""
        os.kill(self.pid, signal.SIGTERM)
        _, _, used = os.wait4(self.pid, 0)
        return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def process(*argv: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a server until the block ends."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            yield running
        finally:
            running.terminate()


@contextlib.contextmanager
def upstream(folder: Path) -> Iterator[int]:
    """Run the upstream; hand out its TLS port."""
    from certificates import make_authority  # noqa: PLC0415  # the lab is no package; found by the path set above

    make_authority(folder, [HOST])
    with process(sys.executable, LAB / "load_server.py", folder / "leaf.pem") as running:
        assert running.stdout is not None  # noqa: S101
        yield int(running.stdout.readline())


def direct(folder: Path, port: int) -> Server:
    """Return the upstream itself."""
    return Server(pid=os.getpid(), port=port, ca=folder / "ca.crt", started_in=0)


@contextlib.contextmanager
def ours(  # noqa: PLR0913 - what the benchmarks vary
    folder: Path, port: int, *, without: str = "", python: str = sys.executable, entry: str = HOST, more: str = ""
) -> Iterator[Server]:
    """Run our proxy with a policy that allows the upstream with this `entry`; `more` is the rest of it.

    `without` is Python that the process runs first. `python` is the interpreter of the tree to measure.
    """
    policy = folder / "policy.yaml"
    policy.write_text(f"version: 1\ndomains: [{entry}]\n{more}")
    start = time.perf_counter()
    program = STARTING.format(without=without)
    command = (
        python, "-P", "-c", program, "run", "--policy", policy, "--listen", "127.0.0.1:0",
        "--state", folder / "state", "--upstream-ca", folder / "ca.crt", "--resolve", f"{HOST}:443:127.0.0.1:{port}",
    )  # fmt: skip
    with process(*command) as running:
        assert running.stdout is not None  # noqa: S101
        ready = json.loads(running.stdout.readline())
        took = time.perf_counter() - start
        with drained(running):
            listening = int(ready["listening"].rpartition(":")[2])
            yield Server(pid=running.pid, port=listening, ca=Path(ready["ca"]), started_in=took)


@contextlib.contextmanager
def drained(running: subprocess.Popen[str]) -> Iterator[None]:
    """Read a server's log away, so that it never waits for a reader."""
    with subprocess.Popen(("cat",), stdin=running.stdout, stdout=subprocess.DEVNULL) as reader:
        try:
            yield
        finally:
            reader.terminate()


@contextlib.contextmanager
def mitmdump(folder: Path, port: int) -> Iterator[Server]:
    """Run plain mitmdump of the same version."""
    script = folder / "redirect.py"
    script.write_text(REDIRECT.format(port=port))
    with socket.create_server(("127.0.0.1", 0)) as free:
        listening = free.getsockname()[1]
    confdir = folder / "mitmdump"
    start = time.perf_counter()
    settings = (f"confdir={confdir}", f"ssl_verify_upstream_trusted_ca={folder / 'ca.crt'}")
    flags = [part for setting in settings for part in ("--set", setting)]
    program = Path(sys.executable).with_name("mitmdump")
    with process(program, "-q", "--listen-host", "127.0.0.1", "-p", str(listening), "-s", script, *flags) as running:
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", listening)):
                break
            time.sleep(0.005)
        took = time.perf_counter() - start
        yield Server(pid=running.pid, port=listening, ca=confdir / "mitmproxy-ca-cert.pem", started_in=took)
