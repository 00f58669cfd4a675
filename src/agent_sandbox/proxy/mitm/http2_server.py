"""HTTP/2 from the client: mitmproxy's class with limits, and an audit record for malformed input."""

import re
from typing import override

import h2.errors
import h2.events
from hyperframe.frame import Frame, GoAwayFrame
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestProtocolError,
    ResponseEndOfMessage,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http2 import Http2Server

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.held_fields import TOO_MANY, HeldFields
from agent_sandbox.proxy.mitm.stream import MalformedHook
from agent_sandbox.proxy.wire.hpack import BoundedDecoder, BoundedEncoder

QUOTED_BYTES = re.compile(r"""\s*:?\s*\bb["'].*""", re.DOTALL)


class StrictHttp2Server(Http2Server):
    """Closes a connection on which the client cancels too many streams or sends too many fields."""

    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context)
        self.h2_conn.encoder = BoundedEncoder()
        self.h2_conn.decoder = BoundedDecoder()
        # h2 would end all streams before it says so.
        self.h2_conn._frame_dispatch_table[GoAwayFrame] = self._read_goaway  # noqa: SLF001 - no public way
        self._resets_left = limits.streams_reset
        self._held_fields = HeldFields(limit=limits.held_bytes)
        self._answered_early: set[int] = set()
        self._unanswered: set[int] = set()
        self._missing: dict[int, int] = {}  # bytes that each Content-Length still promises

    @override
    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        yield from super()._handle_event(event)
        # A request that was cancelled may go on waiting for its server: its fields count for as long as the connection.
        # So do those of a request that was answered early, until it ends.
        if isinstance(event, ResponseEndOfMessage | ResponseProtocolError):
            self._unanswered.discard(event.stream_id)
            if self.is_closed(event.stream_id):
                self._held_fields.release(event.stream_id)
            else:
                self._answered_early.add(event.stream_id)

    @override
    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        if self._held_fields.exceeded_by(event):
            yield from self.protocol_error(TOO_MANY, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            return True
        if isinstance(event, h2.events.RequestReceived):
            self._unanswered.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset) and event.stream_id in self._unanswered:
            self._unanswered.remove(event.stream_id)
            self._resets_left -= 1
            if self._resets_left < 0:
                yield from self.protocol_error("too many cancelled streams", h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                return True
            if event.stream_id not in self.streams:
                # mitmproxy forgets a stream whose end and reset came in the same packet, and its request goes on.
                yield ReceiveHttp(RequestProtocolError(event.stream_id, "stream reset by client", ErrorCode.CANCEL))
        if self._is_cut_short(event):
            yield from self.protocol_error("the body is shorter than its content-length")
            return True
        stops = yield from super().handle_h2_event(event)
        if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset) and event.stream_id in self._answered_early:
            self._answered_early.remove(event.stream_id)
            self._held_fields.release(event.stream_id)
        return stops

    def _read_goaway(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Handle a frame in place of h2: ignore one without an error, whose client waits for its responses."""
        if frame.error_code == h2.errors.ErrorCodes.NO_ERROR:
            return [], []
        return self.h2_conn._receive_goaway_frame(frame)  # noqa: SLF001 - as above

    def _is_cut_short(self, event: h2.events.Event) -> bool:
        """Return whether `event` ends a request whose body is shorter than its Content-Length.

        h2 checks this only if a DATA frame ends the request. An HTTP/1.1 server would read the next request as the rest
        of the body.
        """
        match event:
            case h2.events.RequestReceived():
                # h2 has read the first one as a number; several are refused later.
                lengths = (int(value) for name, value in event.headers if name == b"content-length")
                self._missing[event.stream_id] = next(lengths, 0)
            case h2.events.DataReceived() if event.stream_id in self._missing:
                self._missing[event.stream_id] -= len(event.data)
            case h2.events.StreamReset():
                self._missing.pop(event.stream_id, None)
            case h2.events.StreamEnded():
                return self._missing.pop(event.stream_id, 0) > 0
        return False

    @override
    def protocol_error(
        self, message: str, error_code: int = h2.errors.ErrorCodes.PROTOCOL_ERROR
    ) -> layer.CommandGenerator[None]:
        # h2 quotes the field that is wrong, and that may be a token with a line break behind it.
        reason = QUOTED_BYTES.sub("", message)
        yield MalformedHook(reason)
        yield from super().protocol_error(reason, error_code)
