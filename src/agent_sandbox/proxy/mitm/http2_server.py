"""HTTP/2 from the client: mitmproxy's class with limits, and an audit record for malformed input."""

from typing import override

import h2.errors
import h2.events
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._http2 import Http2Server

from agent_sandbox.proxy.exchange.hooks import MalformedHook
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.hpack import BoundedEncoder


class StrictHttp2Server(Http2Server):
    """Closes a connection on which the client cancels too many streams (rapid reset)."""

    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context)
        self.h2_conn.encoder = BoundedEncoder()
        self._resets_left = limits.streams_reset

    @override
    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        if isinstance(event, h2.events.StreamReset) and event.stream_id in self.streams:
            self._resets_left -= 1
            if self._resets_left < 0:
                yield from self.protocol_error("too many cancelled streams", h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                return True
        return (yield from super().handle_h2_event(event))

    @override
    def protocol_error(
        self, message: str, error_code: int = h2.errors.ErrorCodes.PROTOCOL_ERROR
    ) -> layer.CommandGenerator[None]:
        yield MalformedHook(message)
        yield from super().protocol_error(message, error_code)
