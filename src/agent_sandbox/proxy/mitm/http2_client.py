"""HTTP/2 to the server: mitmproxy's class with a bounded HPACK table, and an end that is per stream.

mitmproxy and h2 end all streams of a connection whose server says goodbye (GOAWAY, RFC 9113, section 6.8). Those up to
the last stream that the frame names go on here; the server did not process the others, and they may be sent again.
"""

from typing import override

import h2.errors
import h2.events
from hyperframe.frame import GoAwayFrame
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode, ResponseProtocolError
from mitmproxy.proxy.layers.http._http2 import Http2Client

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.held_fields import TOO_MANY, HeldFields
from agent_sandbox.proxy.secrets.redactable import unquoted
from agent_sandbox.proxy.wire.hpack import BoundedDecoder, BoundedEncoder

Commands = layer.CommandGenerator[None]
STREAM_IDS = 0x7FFF_FFFF  # without the reserved bit
NAMES = {code.value: code.name for code in h2.errors.ErrorCodes}
REFUSED = "the server refused the stream (REFUSED_STREAM)"
QUEUED = "the connection ended before it was sent"


class NotProcessed(ResponseProtocolError):  # noqa: N818 - an event
    """The server has not processed the request, so that it may be sent again, whatever its method."""


class GoingAway(h2.events.Event):
    """The server takes no more streams, and has not processed those above `last`."""

    def __init__(self, last: int, why: str) -> None:
        self.last = last
        self.why = why


class StrictHttp2Client(Http2Client):
    """Encodes headers with a table of our size, not the server's."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.h2_conn.encoder = BoundedEncoder()
        self.h2_conn.decoder = BoundedDecoder()
        # h2 would close the connection before it says so.
        self.h2_conn._frame_dispatch_table[GoAwayFrame] = self._read_goaway  # noqa: SLF001 - no public way
        self._held_fields = HeldFields(limit=Limits().held_bytes)
        self.leaving = ""
        """Why the server takes no more streams, "" if it does."""
        self._is_closed = False
        self._unprocessed: list[NotProcessed] = []

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        yield from super()._handle_event(event)
        if self.leaving and not self._is_closed and not self.h2_conn.open_outbound_streams:
            self.streams.clear()  # one that was answered early may still be among them
            yield from self.close_connection("")
        while self._unprocessed:
            yield ReceiveHttp(self._unprocessed.pop(0))

    @override
    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        if self._held_fields.exceeded_by(event):
            yield from self.protocol_error(TOO_MANY, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            return True
        if isinstance(event, GoingAway):
            self.leaving = event.why
            self._hand_back({stream_id for stream_id in self.streams if stream_id > event.last}, event.why)
            self._hand_back_queued()
            return False
        if isinstance(event, h2.events.StreamReset) and event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM:
            self._hand_back({event.stream_id}, REFUSED)
            return False
        ended = yield from super().handle_h2_event(event)
        if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
            self._held_fields.release(event.stream_id)
        return ended

    def _read_goaway(self, frame: GoAwayFrame) -> tuple[list[object], list[h2.events.Event]]:
        """Handle a frame in place of h2. Return the frames to send, which are none, and one event."""
        last, code = frame.last_stream_id & STREAM_IDS, NAMES.get(frame.error_code, frame.error_code)
        for stream_id, stream in self.h2_conn.streams.items():
            if stream_id > last and not self.is_closed(stream_id):
                stream.reset_stream()  # sends nothing: the server may not know the stream
        return [], [GoingAway(last, f"the server ended the HTTP/2 connection (GOAWAY, {code})")]

    def _hand_back(self, stream_ids: set[int], why: str) -> None:
        """Forget streams that the server has not processed, so that their requests can be sent again."""
        for stream_id in sorted(stream_ids & self.streams.keys()):
            del self.streams[stream_id]
            self._held_fields.release(stream_id)
            self.h2_conn.stream_buffers.pop(stream_id, None)
            client_id = self.their_stream_id[stream_id]
            self.our_stream_id.pop(client_id)  # it may be sent again on this connection
            self._unprocessed.append(_not_processed(client_id, why))

    def _hand_back_queued(self) -> None:
        """Forget the streams that were never sent, because the server takes so many at once."""
        self._unprocessed += [_not_processed(client_id, QUEUED) for client_id in self.stream_queue]
        self.stream_queue.clear()

    @override
    def close_connection(self, msg: str) -> Commands:
        self._is_closed = True
        self._hand_back_queued()
        # The message goes to all streams, and may quote a secret that was injected into one of them.
        yield from super().close_connection("; ".join(filter(None, (self.leaving, unquoted(msg)))))


def _not_processed(client_id: int, why: str) -> NotProcessed:
    return NotProcessed(client_id, f"the request was not processed: {why}", ErrorCode.GENERIC_SERVER_ERROR)


def install() -> None:
    """Replace the class that mitmproxy's layers use: its name is hard-coded there."""
    http_layer.Http2Client = StrictHttp2Client  # type: ignore[attr-defined]
