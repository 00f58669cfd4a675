"""HTTP/2 to the server: mitmproxy's class with a bounded HPACK table."""

from typing import override

from mitmproxy.proxy import layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http._http2 import Http2Client

from agent_sandbox.proxy.secrets.redactable import unquoted
from agent_sandbox.proxy.wire.hpack import BoundedEncoder

Commands = layer.CommandGenerator[None]


class StrictHttp2Client(Http2Client):
    """Encodes headers with a table of our size, not the server's."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.h2_conn.encoder = BoundedEncoder()

    @override
    def close_connection(self, msg: str) -> Commands:
        # The message goes to all streams, and may quote a secret that was injected into one of them.
        yield from super().close_connection(unquoted(msg))


def install() -> None:
    """Replace the class that mitmproxy's layers use: its name is hard-coded there."""
    http_layer.Http2Client = StrictHttp2Client  # type: ignore[attr-defined]
