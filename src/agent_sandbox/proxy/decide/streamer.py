"""Stream responses chunk by chunk, without the headers that would lead a client around the proxy."""

from itertools import chain

from mitmproxy import flow as mitmflow
from mitmproxy import http

from agent_sandbox.proxy.exchange.exchange import exchange_of
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.secrets.redaction import Echoes, Redactor, redact
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.header_fields import Fields, from_server


class Streamer:
    """Streams every body; ends a flow whose server switches to a protocol that the client did not request."""

    @hook
    def request(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Drop trailers: no rule covers them."""
        flow.request.trailers = None

    @hook
    def responseheaders(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Mark the flow as killed, check the response, and clear the mark: if this raises, the flow stays killed."""
        if flow.error is not None:
            return
        flow.error = mitmflow.Error(mitmflow.Error.KILLED_MESSAGE)
        exchange, response = exchange_of(flow), flow.response
        if exchange is None or response is None:
            return
        switching = response.status_code == 101
        if switching and not (exchange.websocket and response.headers.get("upgrade", "").lower() == "websocket"):
            exchange.line.reason = "the server switched to a protocol that the client did not request"
            return
        if exchange.line.decision == "allow":
            response.headers.fields = from_server(response.headers.fields, switching=switching)
        if exchange.echoes:
            response.headers.fields = _redacted(response.headers.fields, exchange.echoes)
            response.data.reason = redact(exchange.echoes, response.data.reason)
            exchange.received.redactor = Redactor(exchange.echoes)
        response.stream = exchange.received
        flow.error = None

    @hook
    def response(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Redact trailers too."""
        exchange, response = exchange_of(flow), flow.response
        if exchange is not None and response is not None and response.trailers is not None and exchange.echoes:
            response.trailers.fields = _redacted(response.trailers.fields, exchange.echoes)


def _redacted(fields: Fields, echoes: Echoes) -> Fields:
    # Search all fields at once: most responses contain no echo, and no echo extends past the end of a field.
    lines = b"\n".join(chain.from_iterable(fields))
    if redact(echoes, lines) is lines:
        return fields
    return tuple((redact(echoes, name), redact(echoes, value)) for name, value in fields)
