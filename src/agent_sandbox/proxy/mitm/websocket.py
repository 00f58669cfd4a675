"""Relay WebSocket frames as they arrive. mitmproxy's own layer buffers each message until it is complete."""

from typing import override

from mitmproxy import http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.websocket import WebsocketEndHook

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.redaction import Echoes, Redactor, redact
from agent_sandbox.proxy.secrets.search import SearchBudget
from agent_sandbox.proxy.wire.websocket_frames import BINARY, CLOSE, CONTINUES, TEXT, BadFrameError, Frames, frame

Commands = layer.CommandGenerator[None]


class RedactedFrames(Frames):
    """The frames of a server that was sent a secret, with echoes in its messages overwritten.

    Messages are divided into new frames, because the end of the server's frame may be the start of an echo.
    """

    def __init__(self, *, longest: int, echoes: Echoes) -> None:
        super().__init__(masked=False, longest=longest)
        self._echoes = echoes
        self._budget = SearchBudget()
        self._opcode = CONTINUES  # of the next frame of the current message
        self._redactor = Redactor(echoes, self._budget)
        self._control = b""  # payload of the current control frame

    @override
    def read(self, data: bytes) -> bytes:
        """Check `data` and return what can be forwarded now. Raises `BadFrameError`."""
        data, self._begun = self._begun + data, b""
        at, shown = 0, []
        while at < len(data) and not self.closed:
            if self._left:
                size = self._payload(len(data) - at)
                shown.append(self._pass(data[at : at + size]))
            elif size := self._head(data[at : at + 14]):
                if self._kind in (TEXT, BINARY):
                    self._opcode, self._redactor = self._kind, Redactor(self._echoes, self._budget)
                if not self._left:
                    shown.append(self._pass(b""))
            else:
                self._begun = data[at:]
                break
            at += size
        return b"".join(shown)

    def _pass(self, payload: bytes) -> bytes:
        """Return the frame to send for a part of the current frame's payload; empty if there is nothing to send."""
        if self._kind >= CLOSE:
            self._control += payload
            if self._left:
                return b""
            shown, self._control = redact(self._echoes, self._control, self._budget), b""
            return frame(self._kind, shown, ends=True)
        shown, ends = self._redactor.feed(payload), self.message_ended
        if ends:
            shown += self._redactor.end()
        elif not shown:
            return b""
        opcode, self._opcode = self._opcode, CONTINUES
        return frame(opcode, shown, ends=ends)


class WebSocketRelay(layer.Layer):
    """Forwards the frames of both sides, counts their payload, and closes both when one closes."""

    def __init__(self, context: Context, flow: http.HTTPFlow, exchange: Exchange | None, limits: Limits) -> None:
        super().__init__(context)
        self._flow = flow
        self._exchange = exchange
        self._limits = limits
        longest = limits.websocket_bytes
        self._client = Frames(masked=True, longest=longest)
        self._server = (
            RedactedFrames(longest=longest, echoes=exchange.echoes)
            if exchange is not None and exchange.echoes
            else Frames(masked=False, longest=longest)
        )
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
            why = exchange.spend("upload" if from_client else "download", len(event.data))
            if why:
                exchange.over_budget(why)
                yield from self._end(why)
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
