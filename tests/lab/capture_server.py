"""A server that records every byte that it receives: the evidence of an attack test.

It plays the internet on loopback, over TLS when it is given a certificate, and answers each HTTP/1 request with the
entry of `answers` for its path, or a 200 that repeats the request line. If the entry is a function, it is called with
the connection and the part of the body that was read with the head, and handles the rest of the connection.
"""

import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import override

from loopback_server import Listening

HEAD_END = b"\r\n\r\n"


@dataclass
class Received:
    """One request as it arrived."""

    head: bytes
    body: bytes
    client: int = 0  # the port of its connection

    @property
    def line(self) -> str:
        """The request line."""
        return self.head.partition(b"\r\n")[0].decode("latin-1")

    def field(self, name: str) -> list[str]:
        """The values of a header."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return [line.partition(":")[2].strip() for line in lines if line.lower().startswith(f"{name.lower()}:")]


@dataclass
class Capture(Listening):
    """A listening server on loopback."""

    certificate: Path | None = None
    protocols: Sequence[str] = ()
    greeting: bytes = b""
    answers: dict[str, bytes | Callable[[socket.socket, bytes], None]] = field(default_factory=dict)
    raw: bytearray = field(default_factory=bytearray)
    requests: list[Received] = field(default_factory=list)

    def forget(self) -> None:
        """Begin to count from nothing."""
        self.raw.clear()
        self.requests.clear()
        self.connections = 0

    def wait_for(self, count: int, *, seconds: float = 30.0) -> list[Received]:
        """Return the requests when there are that many."""
        end = time.monotonic() + seconds
        while len(self.requests) < count:
            assert time.monotonic() < end, f"{len(self.requests)} of {count} requests arrived within {seconds} s"
            time.sleep(0.01)
        return self.requests

    @override
    def talk(self, stream: socket.socket) -> None:
        """Greet, and answer request by request."""
        client = stream.getpeername()[1]
        stream.sendall(self.greeting)
        data = b""
        while True:
            while HEAD_END not in data:
                data += self._receive(stream)
            head, _, data = data.partition(HEAD_END)
            request = Received(head, b"", client)
            answer = self.answers.get(request.line.split(" ")[1].partition("?")[0])
            if callable(answer):
                self.requests.append(request)
                answer(stream, data)
                return
            request.body, data = self._body(stream, head, data)
            self.requests.append(request)
            stream.sendall(answer or ok(request.line.encode("latin-1")))

    def _receive(self, stream: socket.socket) -> bytes:
        data = stream.recv(65536)
        if not data:
            raise ConnectionAbortedError
        if len(self.raw) < 1_000_000:
            self.raw += data
        return data

    def _body(self, stream: socket.socket, head: bytes, data: bytes) -> tuple[bytes, bytes]:
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if length:
            while len(data) < int(length[1]):
                data += self._receive(stream)
            return data[: int(length[1])], data[int(length[1]) :]
        if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
            return self._chunks(stream, data)
        return b"", data

    def _chunks(self, stream: socket.socket, data: bytes) -> tuple[bytes, bytes]:
        """Read up to the last chunk; what is in one may look like any other. Return them as they came, without it."""
        body = b""
        while True:
            while b"\r\n" not in data:
                data += self._receive(stream)
            line, _, data = data.partition(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            while len(data) < size + 2:
                data += self._receive(stream)
            if size == 0:
                return body, data[2:]
            body, data = body + line + b"\r\n" + data[: size + 2], data[size + 2 :]


def ok(body: bytes, *fields: bytes) -> bytes:
    """Return a whole answer."""
    more = b"".join(field + b"\r\n" for field in fields)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), more, body)
