"""The real proxy as a process on loopback, and clients that send it any bytes."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agent_sandbox.proxy.control.client import ask
from answering import SWITCH, Answering
from changed_limits import limits_with

SECONDS = 30.0
# The proxy's own limits are longer than the tests wait: what a test gets, it did not get because a time was over.
PATIENT = limits_with(
    head_seconds=300.0, hello_seconds=300.0, body_seconds=300.0, resolve_seconds=300.0, connect_seconds=300.0
)
# For `sabotage`: mitmproxy is imported at the start, not while a test measures memory or waits for its first answer.
MITMPROXY_LOADED = "import agent_sandbox.proxy.mitm.session\n"
# Seconds of processor time. A request that waits for others on a busy machine waits longer, but not behind more work.
LITTLE_WORK = 2.0
LISTEN = tuple(f"--{entrance}=127.0.0.1:0" for entrance in ("listen", "tls", "http", "dns"))


@dataclass
class ProxyProcess:
    """`python -P -m agent_sandbox.proxy run` with a policy; `resolve` leads names to stand-ins.

    `sabotage` is Python that runs in the process before the proxy does; `more` are further options.
    """

    folder: Path
    policy: str
    resolve: Mapping[tuple[str, int], int] = field(default_factory=dict)
    upstream_ca: Path | None = None
    sabotage: str = ""
    more: tuple[str, ...] = ()
    lines: list[dict[str, Any]] = field(default_factory=list)
    errors: str = ""
    _answering: Answering | None = None

    @property
    def policy_file(self) -> Path:
        """The path of the policy."""
        return self.folder / "policy.yaml"

    def __enter__(self) -> Self:
        """Start it, and wait until it listens."""
        self.policy_file.write_text(self.policy)
        overrides = [f"--resolve={host}:{port}:127.0.0.1:{to}" for (host, port), to in self.resolve.items()]
        trusting = [f"--upstream-ca={self.upstream_ca}"] if self.upstream_ca else []
        start = f"{PATIENT}{self.sabotage}\nfrom agent_sandbox.proxy.__main__ import main\nraise SystemExit(main())"
        command = [sys.executable, "-c", start, "run", f"--policy={self.policy_file}"]
        self.process = subprocess.Popen(
            [*command, *LISTEN, f"--state={self.folder}/state", *trusting, *overrides, *self.more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        ready = self.process.stdout.readline()
        assert ready, self.process.communicate()[1]
        self.ready: dict[str, str] = json.loads(ready)
        self.address = self.entrance("listening")
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._follow, self._read_errors)]
        for reader in self._readers:
            reader.start()
        if answer := os.environ.get(SWITCH):
            self._answering = Answering(self.ready["control"], answer).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def stop(self) -> None:
        """End the process, and read the rest of its output."""
        if self._answering:
            self._answering.__exit__()
        self.process.terminate()
        self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)

    def _follow(self) -> None:
        assert self.process.stdout
        with self.process.stdout as stream:
            for line in stream:
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr
        with self.process.stderr as stream:
            for line in stream:
                self.errors += line

    def forget(self) -> None:
        """Drop the records so far, including those that are still being written.

        Once the control socket has answered, the proxy has had time for its pending records, even on a busy machine.
        """
        seen = -1
        while seen < len(self.lines):
            seen = len(self.lines)
            for _ in range(2):
                self.ask_control("status")
                time.sleep(0.02)
        self.lines.clear()

    def line(self, *, seconds: float = SECONDS, **wanted: object) -> dict[str, Any]:
        """Wait for a record since `forget` with these values, and return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in list(self.lines):
                if all(line.get(key) == value for key, value in wanted.items()):
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no line with {wanted} in {self.lines}")

    def command(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the proxy's."""
        command = [sys.executable, "-P", "-m", "agent_sandbox.proxy", verb, f"--control={self.ready['control']}", *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * SECONDS)

    def ask_control(self, verb: str, *, seconds: float = SECONDS) -> dict[str, Any]:
        """Ask the control socket, as the command with this name does; starting the command would take longer."""
        return ask(Path(self.ready["control"]), {"verb": verb}, seconds=seconds)

    def reload(self, policy: str) -> dict[str, Any]:
        """Replace the policy and reload it; return the answer.

        Its record has been read by then: a `forget` right after it forgets that too.
        """
        before = self._policy_records()
        self.policy_file.write_text(policy)
        answer = self.ask_control("reload")
        assert answer["ok"], answer
        end = time.monotonic() + SECONDS
        while self._policy_records() == before:
            assert time.monotonic() < end, "no record of the reload"
            time.sleep(0.001)
        return answer

    def _policy_records(self) -> int:
        return sum(line["event"] == "policy" for line in list(self.lines))

    def memory(self) -> int:
        """Return the resident memory of the process, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def work(self) -> float:
        """Return the processor time that the process has used, in seconds."""
        numbers = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def little_work(self) -> Iterator[None]:
        """Check that the process does little else until the block ends, which on a busy machine can take long."""
        before = self.work()
        yield
        assert self.work() - before < LITTLE_WORK

    def entrance(self, name: str) -> tuple[str, int]:
        """Return the address of one of its entrances."""
        return "127.0.0.1", int(self.ready[name].rpartition(":")[2])

    def connect(self, *, seconds: float = SECONDS, entrance: str = "listening") -> socket.socket:
        """Open a plain connection to it."""
        return socket.create_connection(self.entrance(entrance), seconds)

    def say(self, data: bytes, *, seconds: float = SECONDS) -> bytes:
        """Send bytes, return all that comes until the end."""
        with self.connect(seconds=seconds) as connection:
            connection.sendall(data)
            return read_all(connection)

    @contextlib.contextmanager
    def tunnel(self, host: str, port: int = 443) -> Iterator[socket.socket]:
        """Open a tunnel by CONNECT."""
        with self.connect() as connection:
            connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head = read_head(connection)
            assert head.startswith(b"HTTP/1.1 200"), head
            yield connection

    @contextlib.contextmanager
    def tls(
        self, host: str, port: int = 443, *, sni: str | None = "", alpn: tuple[str, ...] = ()
    ) -> Iterator[ssl.SSLSocket]:
        """Open a tunnel with TLS in it; by default for the host of the tunnel."""
        context = ssl.create_default_context(cafile=self.ready["ca"])
        context.check_hostname = sni == ""
        if alpn:
            context.set_alpn_protocols(list(alpn))
        with (
            self.tunnel(host, port) as connection,
            context.wrap_socket(connection, server_hostname=host if sni == "" else sni) as stream,
        ):
            yield stream

    def ask(self, host: str, request: bytes, *, port: int = 443) -> bytes:
        """Send bytes through TLS, return all that comes until the end; the answer may come before all is sent."""
        with self.tls(host, port) as stream:
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                stream.sendall(request)
            return read_all(stream)


def get(path: str, host: str, *fields: str, method: str = "GET") -> bytes:
    """Return a request after which the connection is closed."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side closes; a reset ends it too."""
    data = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError, ssl.SSLError):
        while chunk := connection.recv(65536):
            data += chunk
    return data


def read_head(connection: socket.socket) -> bytes:
    """Read one response head."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            return data
        data += byte
    return data


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Read one response that has a Content-Length; return its status and body. Raise ConnectionError without one."""
    head = read_head(connection)
    if not head:
        raise ConnectionError("the connection ended without a response")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    body = b""
    while len(body) < length:
        piece = connection.recv(length - len(body))
        assert piece, f"the connection has ended after {len(body)} bytes of {length}"
        body += piece
    return int(head.split()[1]), body
