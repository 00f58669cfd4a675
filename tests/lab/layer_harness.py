"""The proxy's layers without a socket: bytes go in on one side, and the results are recorded."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, override

import h2.config
import h2.connection
import h2.events
from mitmproxy.connection import Client, Connection, ConnectionState, Server
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context

from agent_sandbox.policy import Effect
from agent_sandbox.proxy.exchange.exchange import Exchange, Outcome
from agent_sandbox.proxy.exchange.hooks import Hooks, hook, hook_table
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm import http1_client, http2_client
from agent_sandbox.proxy.mitm.hook_runner import HookRunner
from agent_sandbox.proxy.mitm.http_layer import Destination, Resumed
from agent_sandbox.proxy.mitm.options import EngineOptions, as_mitmproxy
from agent_sandbox.proxy.tunnel import Carries, Tunnel

if TYPE_CHECKING:
    from agent_sandbox.proxy.upstream.dialler import NotReached

HTTP2_FIELDS = [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/x")]
PLAIN = Tunnel(client="10.0.0.3", carries=Carries.HTTP, host="a.test", port=80)


class Malformed:
    """An addon that records malformed input."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    @hook
    def malformed(self, reason: str, _: Tunnel) -> None:
        """Keep it."""
        self.reasons.append(reason)


class LetThrough:
    """Lets every request and response through unchanged, without a policy."""

    @hook
    def requestheaders(self, exchange: Exchange, _: Tunnel) -> None:
        """Let it through."""
        exchange.outcome = Outcome(Effect.ALLOW, "")
        exchange.forwarded = exchange.head

    @hook
    def responseheaders(self, exchange: Exchange, _: Tunnel) -> None:
        """Let it through."""
        exchange.returned = exchange.response


class Wait(LetThrough):
    """Makes each request wait, and lets it through when it is asked again."""

    def __init__(self) -> None:
        self.left: list[Exchange] = []

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Make it wait, once."""
        if exchange.waiting is None:
            exchange.waiting = Waiting(leave=lambda: self.left.append(exchange))
        elif exchange.waiting.why:
            exchange.deny(exchange.denial(exchange.waiting.why))
        else:
            super().requestheaders(exchange, tunnel)


class Deny:
    """Denies everything."""

    @hook
    def requestheaders(self, exchange: Exchange, _: Tunnel) -> None:
        """Deny it."""
        exchange.deny(exchange.denial("no"))


def hooks_of(*addons: object) -> Hooks:
    """Return the table of `addons`; where they have no hook of a name, that of `LetThrough`."""
    return hook_table(LetThrough()) | hook_table(*addons)


class Wire:
    """One client connection, and the server connections that come of it."""

    def __init__(
        self, tunnel: Tunnel, *addons: object, limits: Limits | None = None, alpn: bytes | None = None
    ) -> None:
        http1_client.install()
        http2_client.install()
        self.client = Client(peername=("10.0.0.3", 1), sockname=("10.0.0.2", 8080), state=ConnectionState.OPEN)
        self.client.alpn = alpn
        self.faults: list[str] = []
        self.servers: list[Server] = []
        self.sent: dict[Connection, bytes] = {self.client: b""}
        self.finished: list[Connection] = []  # nothing more is sent to it
        self.closed: list[Connection] = []
        self.reset: list[Connection] = []
        self.cut: list[Connection] = []
        self.resumed: list[Resumed] = []
        self.wakeups: list[commands.RequestWakeup] = []
        self.hasty = True  # a wakeup at once comes at once
        self.refuse_dial: NotReached | None = None
        self.patient = False  # servers are reached when the test says so
        self.opening: list[commands.OpenConnection] = []
        self.server_alpn: bytes | None = None
        runner = HookRunner(hooks_of(*addons), tunnel, on_fault=self.faults.append, close=self._abort)
        context = Context(self.client, as_mitmproxy(EngineOptions()))
        self.layer = Destination(
            context, tunnel, limits or Limits(), runner.run, self.reset.append, self.resumed.append
        )
        self.feed(events.Start())

    def _abort(self) -> None:
        self.closed.append(self.client)

    def feed(self, event: events.Event) -> None:
        """Give the layers an event, and carry out their commands."""
        waiting = deque([event])
        while waiting:
            for command in self.layer.handle_event(waiting.popleft()):
                if isinstance(command, commands.OpenConnection):
                    self.opening.append(command)
                    if not self.patient:
                        waiting.append(self._open(self.opening.pop()))
                elif isinstance(command, commands.SendData):
                    self.sent[command.connection] += command.data
                elif isinstance(command, commands.CloseConnection):
                    self._close(command)
                elif isinstance(command, commands.RequestWakeup) and command.delay == 0 and self.hasty:
                    waiting.append(events.Wakeup(command))
                elif isinstance(command, commands.RequestWakeup):
                    self.wakeups.append(command)

    def _close(self, command: commands.CloseConnection) -> None:
        if isinstance(command, commands.CloseTcpConnection) and command.half_close:
            command.connection.state &= ~ConnectionState.CAN_WRITE
            self.finished.append(command.connection)
            return
        command.connection.state = ConnectionState.CLOSED
        self.closed.append(command.connection)
        if isinstance(command, http1_client.CutConnection):
            self.cut.append(command.connection)

    def _open(self, command: commands.OpenConnection) -> events.Event:
        if self.refuse_dial is not None:
            command.connection.error = self.refuse_dial
            return events.OpenConnectionCompleted(command, self.refuse_dial)
        command.connection.state = ConnectionState.OPEN
        command.connection.alpn = self.server_alpn
        self.servers.append(command.connection)
        self.sent[command.connection] = b""
        return events.OpenConnectionCompleted(command, None)

    def reached(self) -> None:
        """Let the server that is dialled be reached."""
        self.feed(self._open(self.opening.pop()))

    def client_sends(self, data: bytes) -> bytes:
        """Let the client send; return all that it has got so far."""
        self.feed(events.DataReceived(self.client, data))
        return self.to_client

    def server_sends(self, data: bytes) -> bytes:
        """Let the newest server send; return all that the client has got so far."""
        self.feed(events.DataReceived(self.servers[-1], data))
        return self.to_client

    def closes(self, connection: Connection) -> None:
        """Let one side close."""
        connection.state = ConnectionState.CLOSED
        self.feed(events.ConnectionClosed(connection))

    @property
    def to_client(self) -> bytes:
        """The bytes that the client has received."""
        return self.sent[self.client]

    @property
    def to_server(self) -> bytes:
        """The bytes that the newest server has received."""
        return self.sent[self.servers[-1]] if self.servers else b""


class Http2Wire(Wire):
    """A wire whose client speaks HTTP/2 and sends anything unchecked."""

    def __init__(self, *addons: object, limits: Limits | None = None) -> None:
        checks: dict[str, Any] = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(**checks))
        self.h2.initiate_connection()
        self._read = 0
        super().__init__(PLAIN, *addons, limits=limits, alpn=b"h2")

    def request(self, *, body: bytes | None = None, trailers: bool = False, path: str = "/x") -> None:
        """Send a request."""
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, [*HTTP2_FIELDS[:-1], (":path", path)], end_stream=body is None)
        if body is not None:
            self.h2.send_data(number, body, end_stream=not trailers)
        if trailers:
            self.h2.send_headers(number, [("x-sum", "1")], end_stream=True)
        self.client_sends(self.h2.data_to_send())

    def events(self) -> list[h2.events.Event]:
        """Return what has happened since the last time."""
        data = self.to_client[self._read :]
        self._read += len(data)
        return self.h2.receive_data(data)
