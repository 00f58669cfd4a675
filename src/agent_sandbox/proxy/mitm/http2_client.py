"""HTTP/2 to the upstream server: mitmproxy's, with a bound on what is remembered of the fields that were sent."""

from typing import override

import h2.errors
import h2.events
from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http._http2 import Http2Client

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.held_fields import TOO_MANY, HeldFields
from agent_sandbox.proxy.secrets.redactable import unquoted
from agent_sandbox.proxy.wire.hpack import BoundedDecoder, BoundedEncoder

Commands = layer.CommandGenerator[None]


class StrictHttp2Client(Http2Client):
    """Packs fields with a table of our size, not the server's."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.h2_conn.encoder = BoundedEncoder()
        self.h2_conn.decoder = BoundedDecoder()
        self._held_fields = HeldFields(limit=Limits().held_bytes)

    @override
    def handle_h2_event(self, event: h2.events.Event) -> layer.CommandGenerator[bool]:
        if self._held_fields.exceeded_by(event):
            yield from self.protocol_error(TOO_MANY, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            return True
        ended = yield from super().handle_h2_event(event)
        if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
            self._held_fields.release(event.stream_id)
        return ended

    @override
    def close_connection(self, msg: str) -> Commands:
        # All streams are told, and one of them may have been sent a secret that is quoted.
        yield from super().close_connection(unquoted(msg))


def install() -> None:
    """Make mitmproxy's layers use this client; they name theirs, and leave no other way in."""
    http_layer.Http2Client = StrictHttp2Client  # type: ignore[attr-defined]
