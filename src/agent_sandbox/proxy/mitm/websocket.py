"""Relay WebSocket frames as they arrive. mitmproxy's own layer buffers each message until it is complete."""

from typing import override

from mitmproxy import http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.websocket import WebsocketEndHook

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.redacted_frames import server_frames
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.wire.websocket_frames import BadFrameError, Frames

Commands = layer.CommandGenerator[None]


class WebSocketRelay(layer.Layer):
    """Forwards the frames of both sides, counts their payload, and closes both when one closes."""

    def __init__(self, context: Context, flow: http.HTTPFlow, exchange: Exchange | None, limits: Limits) -> None:
        super().__init__(context)
        self._flow = flow
        self._exchange = exchange
        self._limits = limits
        longest = limits.websocket_bytes
        self._client = Frames(masked=True, longest=longest)
        self._server = server_frames(exchange.echoes if exchange is not None else Echoes(), longest=longest)
        self._patience: commands.RequestWakeup | None = None
        self._over = False

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        if self._over:
            return
        if isinstance(event, events.DataReceived):
            yield from self._pass(event)
        else:  # one side has left, or the wait for its Close has timed out
            yield from self._end()

    def _pass(self, event: events.DataReceived) -> Commands:
        from_client = event.connection == self.context.client
        frames = self._client if from_client else self._server
        try:
            data = frames.read(event.data)
        except BadFrameError as bad:
            yield from self._end(f"{'the client' if from_client else 'the server'} sent {bad}")
            return
        if exchange := self._exchange:
            over = exchange.spend("upload" if from_client else "download", len(event.data))
            if over:
                exchange.over_budget(over)
                yield from self._end(over.reason)
                return
        if data:
            yield commands.SendData(self.context.server if from_client else self.context.client, data)
        if self._client.closed and self._server.closed:
            yield from self._end()
        elif frames.closed and self._patience is None:
            # The other side should send a Close too, but some never do.
            self._patience = commands.RequestWakeup(self._limits.websocket_closing_seconds)
            yield self._patience

    def _end(self, why: str = "") -> Commands:
        self._over = True
        exchange = self._exchange
        if exchange is not None:
            exchange.sent.count += self._client.count
            exchange.received.count += self._server.count
            exchange.error = why
        for connection in (self.context.server, self.context.client):
            yield commands.CloseConnection(connection)
        yield WebsocketEndHook(self._flow)
        self._flow.live = False
