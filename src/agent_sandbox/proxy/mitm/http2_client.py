"""HTTP/2 to the upstream server: mitmproxy's, with a bound on what is remembered of the fields that were sent."""

from typing import override

from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http._http2 import Http2Client

from agent_sandbox.proxy.secrets.redactable import unquoted
from agent_sandbox.proxy.wire.hpack import BoundedDecoder, BoundedEncoder

Commands = layer.CommandGenerator[None]


class StrictHttp2Client(Http2Client):
    """Packs fields with a table of our size, not the server's."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.h2_conn.encoder = BoundedEncoder()
        self.h2_conn.decoder = BoundedDecoder()

    @override
    def close_connection(self, msg: str) -> Commands:
        # All streams are told, and one of them may have been sent a secret that is quoted.
        yield from super().close_connection(unquoted(msg))


def install() -> None:
    """Make mitmproxy's layers use this client; they name theirs, and leave no other way in."""
    http_layer.Http2Client = StrictHttp2Client  # type: ignore[attr-defined]
