"""A client that speaks HTTP/2 over a connection, and says whatever a test wants said."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events

if TYPE_CHECKING:
    import ssl


class Http2Client:
    """An HTTP/2 client that does not check what it is told to send."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        checks: dict[str, Any] = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
        self.stream = stream
        self.happened: defaultdict[int, deque[str]] = defaultdict(deque)
        self.received: defaultdict[int, bytes] = defaultdict(bytes)
        self.closed = False
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", **checks))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.stream.sendall(self.h2.data_to_send())

    def send(self, *fields: tuple[str, str], body: bytes | None = None) -> int:
        """Send a request; return its stream."""
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, list(fields), end_stream=body is None)
        if body is not None:
            self.h2.send_data(number, body, end_stream=True)
        self.flush()
        return number

    def status(self, number: int) -> str:
        """Wait for what happens next on a stream: the status of its answer, or its end."""
        while not self.happened[number] and not self.closed:
            data = self.stream.recv(65536)
            self.closed = not data
            for event in self.h2.receive_data(data):
                self._note(event)
            if not self.closed:
                self.flush()
        return self.happened[number].popleft() if self.happened[number] else "closed"

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.happened[event.stream_id].append(str(dict(event.headers)[":status"]))  # type: ignore[index] # str
        elif isinstance(event, h2.events.StreamReset):
            self.happened[event.stream_id].append("reset")
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.closed = True
        elif isinstance(event, h2.events.DataReceived):
            self.received[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)


def fields(
    path: str = "/api/x", authority: str = "allowed.test", method: str = "GET", scheme: str = "https"
) -> list[tuple[str, str]]:
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
