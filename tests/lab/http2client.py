"""An HTTP/2 client that sends any frames."""

import ssl
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import h2.config
import h2.connection
import h2.events

from proxy_stand import ProxyProcess


class Http2Streams:
    """The client's side of an HTTP/2 connection, without I/O. It sends any frames, even invalid ones."""

    def __init__(self) -> None:
        checks: dict[str, Any] = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
        self.happened: defaultdict[int, deque[str]] = defaultdict(deque)
        self.received: defaultdict[int, bytes] = defaultdict(bytes)
        self.heads: dict[int, dict[str, str]] = {}
        self.ended: set[int] = set()
        self.closed = False
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1", **checks))
        self.h2.initiate_connection()

    def begin(self, fields: Sequence[tuple[str, str]], body: bytes | None, *, ends: bool = True) -> int:
        """Prepare a request, or its beginning; return its stream."""
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, fields, end_stream=body is None and ends)
        if body is not None:
            self.h2.send_data(number, body, end_stream=ends)
        return number

    def take(self, data: bytes) -> None:
        """Note what has arrived, b"" at the end."""
        self.closed = not data
        for event in self.h2.receive_data(data):
            self._note(event)

    def is_over(self, number: int) -> bool:
        """Return whether nothing more will happen on a stream."""
        return number in self.ended or self.closed

    def outcome(self, number: int) -> tuple[str, bytes]:
        """Return the last thing that happened on a stream (its status, or "reset", or "closed"), and its body."""
        return self.happened[number].pop() if self.happened[number] else "closed", self.received[number]

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.heads[event.stream_id] = dict(event.headers)  # type: ignore[arg-type] # str
            self.happened[event.stream_id].append(self.heads[event.stream_id][":status"])
        elif isinstance(event, h2.events.StreamReset):
            self.happened[event.stream_id].append("reset")
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.closed = True
        elif isinstance(event, h2.events.DataReceived):
            self.received[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)


class Http2Client(Http2Streams):
    """An HTTP/2 client over a socket."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        super().__init__()
        self.stream = stream
        self.flush()

    def flush(self) -> None:
        self.stream.sendall(self.h2.data_to_send())

    def send(self, *fields: tuple[str, str], body: bytes | None = None) -> int:
        """Send a request; return its stream."""
        number = self.begin(fields, body)
        self.flush()
        return number

    def status(self, number: int) -> str:
        """Wait for what happens next on a stream: the status of its answer, or its end."""
        while not self.happened[number] and not self.closed:
            self._receive()
        return self.happened[number].popleft() if self.happened[number] else "closed"

    def answer(self, number: int) -> tuple[str, bytes]:
        """Wait for the end of a stream, and return its outcome."""
        while not self.is_over(number):
            self._receive()
        return self.outcome(number)

    def _receive(self) -> None:
        self.take(self.stream.recv(65536))
        if not self.closed:
            self.flush()


def ask_over_http2(
    proxy: ProxyProcess, host: str, path: str, *more: tuple[str, str], method: str = "GET", body: bytes | None = None
) -> tuple[str, bytes]:
    """Send one request on its own connection. Return its status, or how it ended, and the body of the response."""
    with proxy.tls(host, alpn=("h2",)) as stream:
        client = Http2Client(stream)
        return client.answer(client.send(*fields(path, host, method), *more, body=body))


def fields(
    path: str = "/api/x", authority: str = "allowed.test", method: str = "GET", scheme: str = "https"
) -> list[tuple[str, str]]:
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
