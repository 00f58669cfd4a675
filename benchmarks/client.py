"""A plain client through a proxy: sockets and TLS, nothing that could buffer or retry."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import TYPE_CHECKING, override

import h2.connection
import h2.events

from benchmarks.servers import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.servers import Server


class Client:
    """Opens intercepted connections through one proxy. `authority` is what its requests name as their host."""

    authority = HOST

    def __init__(self, server: Server) -> None:
        self.server = server
        self.context = ssl.create_default_context(cafile=str(server.ca))

    @contextlib.contextmanager
    def connection(self) -> Iterator[ssl.SSLSocket]:
        """Reach the upstream, and speak TLS with it."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.reach(plain)
            with self.context.wrap_socket(plain, server_hostname=HOST) as secured:
                yield secured

    def reach(self, plain: socket.socket) -> None:
        """Have the proxy open a tunnel."""
        plain.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode())
        answer = plain.recv(4096)
        if b" 200 " not in answer:
            raise ConnectionError(answer.decode())

    def request(self, connection: ssl.SSLSocket, head: str, body: bytes = b"", *, times: int = 1) -> int:
        """Send a head and `times` bodies; return the size of the answer's body."""
        length = f"Content-Length: {len(body) * times}\r\n" if times * len(body) else ""
        connection.sendall(f"{head} HTTP/1.1\r\nHost: {self.authority}\r\n{length}\r\n".encode())
        for _ in range(times if body else 0):
            connection.sendall(body)
        return read_answer(connection)

    def first_event(self) -> float:
        """Return the seconds from the start of a connection to its first server-sent event."""
        start = time.perf_counter()
        with self.connection() as connection:
            connection.sendall(f"GET /events HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode())
            read_event(connection)
            return time.perf_counter() - start

    def first_event_when_open(self) -> float:
        """Return the seconds from a request on a connection that was used before to its first server-sent event."""
        with self.connection() as connection:
            self.request(connection, "GET /bytes/10")
            start = time.perf_counter()
            connection.sendall(f"GET /events HTTP/1.1\r\nHost: {self.authority}\r\n\r\n".encode())
            read_event(connection)
            return time.perf_counter() - start

    def echoes(self, count: int) -> float:
        """Return the mean seconds of a WebSocket echo."""
        with self.connection() as connection:
            connection.sendall(
                f"GET /echo HTTP/1.1\r\nHost: {self.authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
            )
            seen = b""
            while b"\r\n\r\n" not in seen:
                seen += connection.recv(4096)
            start = time.perf_counter()
            for _ in range(count):
                connection.sendall(b"\x81\x84\x00\x00\x00\x00ping")
                got = b""
                while len(got) < 6:
                    got += connection.recv(6 - len(got))
            return (time.perf_counter() - start) / count


class DirectClient(Client):
    """Opens connections to the upstream itself."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the lab's authority is a plain one

    @override
    def reach(self, plain: socket.socket) -> None:
        """Be there already."""


class Http2Client(Client):
    """Speaks HTTP/2, and asks for one thing after the other."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.context.set_alpn_protocols(["h2"])
        self.streams = h2.connection.H2Connection()

    @contextlib.contextmanager
    @override
    def connection(self) -> Iterator[ssl.SSLSocket]:
        with super().connection() as secured:
            self.streams = h2.connection.H2Connection()
            self.streams.initiate_connection()
            yield secured

    @override
    def request(self, connection: ssl.SSLSocket, head: str, body: bytes = b"", *, times: int = 1) -> int:
        method, path = head.split(" ")
        number = self.streams.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "https"), (":authority", self.authority), (":path", path)]
        self.streams.send_headers(number, fields, end_stream=True)
        size = 0
        while True:
            connection.sendall(self.streams.data_to_send())
            for event in self.streams.receive_data(connection.recv(65536)):
                if isinstance(event, h2.events.DataReceived):
                    size += len(event.data)
                    self.streams.acknowledge_received_data(event.flow_controlled_length, number)
                elif isinstance(event, h2.events.StreamEnded):
                    return size


def read_event(connection: ssl.SSLSocket) -> None:
    """Read up to the first server-sent event."""
    seen = b""
    while b"data: 1" not in seen:
        seen += connection.recv(65536)


def read_answer(connection: ssl.SSLSocket) -> int:
    """Read one answer with a Content-Length or in chunks; return the size of its body on the wire."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(head.decode())
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    size = int(lengths[0])
    left = size - len(rest)
    while left > 0:
        left -= len(connection.recv(min(left, 262144)))
    return size
