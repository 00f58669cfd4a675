"""The proxy's layers without a socket: bytes go in on one side, and the results are recorded."""

from collections import deque
from typing import Any, cast, override

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
from agent_sandbox.proxy.mitm.session import EngineOptions
from agent_sandbox.proxy.mitm.stream import TurnHook
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import NotReached
from http2client import Http2Streams
from http2client import fields as request_fields

HTTP2_FIELDS = request_fields("/x", "a.test", "POST", "http")
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


class With(LetThrough):
    """Lets every request through, with these values in its exchange."""

    def __init__(self, **values: object) -> None:
        self._values = values

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Set them."""
        super().requestheaders(exchange, tunnel)
        for name, value in self._values.items():
            setattr(exchange, name, value)


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


def without_tls(layer: Destination) -> None:
    """Let a client and its servers speak HTTP/2 or HTTP/1.1 without TLS."""
    layer._child = layer._http
    layer.context.server.tls = layer.context.client.tls = False


class Wire:
    """One client connection, whose client speaks HTTP/2, and the server connections that come of it."""

    def __init__(self, *addons: object, limits: Limits | None = None, alpn: bytes | None = b"h2") -> None:
        http1_client.install()
        http2_client.install()
        self.client = Client(peername=("10.0.0.3", 1), sockname=("10.0.0.2", 8080), state=ConnectionState.OPEN)
        self.client.alpn = alpn
        self.faults: list[str] = []
        self.servers: list[Server] = []
        self.sent: dict[Connection, bytes] = {self.client: b""}
        self.closed: list[Connection] = []
        self.reset: list[Connection] = []
        self.resumed: list[Resumed] = []
        self.turns: deque[Resumed] = deque()
        self.is_busy = False  # no body gets its turn
        self.wakeups: list[commands.RequestWakeup] = []
        self.refuse_dial: NotReached | None = None
        self.patient = False  # servers are reached when the test says so
        self.opening: list[commands.OpenConnection] = []
        self.server_alpn: bytes | None = None
        self.streams = Http2Streams()
        self.h2 = self.streams.h2
        self._read = 0
        runner = HookRunner(hooks_of(*addons), PLAIN, on_fault=self.faults.append, close=self._abort)
        context = Context(self.client, cast("Any", EngineOptions()))
        self.layer = Destination(context, PLAIN, limits or Limits(), runner.run, self.reset.append, self._resume)
        without_tls(self.layer)
        self.feed(events.Start())

    def _resume(self, event: Resumed) -> None:
        (self.turns if isinstance(event.hook, TurnHook) else self.resumed).append(event)

    def _abort(self) -> None:
        self.closed.append(self.client)

    def feed(self, event: events.Event) -> None:
        """Give the layers an event, and carry out their commands."""
        waiting = deque([event])
        while waiting or (self.turns and not self.is_busy):
            waiting.extend(() if waiting else [self.turns.popleft()])
            for command in self.layer.handle_event(waiting.popleft()):
                if isinstance(command, commands.OpenConnection):
                    self.opening.append(command)
                    if not self.patient:
                        waiting.append(self._open(self.opening.pop()))
                elif isinstance(command, commands.SendData):
                    self.sent[command.connection] += command.data
                elif isinstance(command, commands.CloseConnection):
                    command.connection.state = ConnectionState.CLOSED
                    self.closed.append(command.connection)
                elif isinstance(command, commands.RequestWakeup):
                    self.wakeups.append(command)

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

    def client_sends(self, data: bytes) -> None:
        """Let the client send bytes."""
        self.feed(events.DataReceived(self.client, data))

    def flush(self) -> None:
        """Let the client send the frames that it has prepared."""
        self.client_sends(self.h2.data_to_send())

    def ask(
        self,
        path: str = "/x",
        *fields: tuple[str, str],
        method: str = "GET",
        body: bytes | None = None,
        ends: bool = True,
    ) -> int:
        """Let the client send a request, or its beginning; return its stream."""
        number = self.streams.begin([*request_fields(path, "a.test", method, "http"), *fields], body, ends=ends)
        self.flush()
        return number

    def more(self, number: int, data: bytes, *, ends: bool = False) -> None:
        """Let the client send more of a request body."""
        self.h2.send_data(number, data, end_stream=ends)
        self.flush()

    def got(self, number: int = 1) -> bytes:
        """Return what the client got on a stream: the status and the body, with "..." if more may come, or "reset"."""
        while data := self.to_client[self._read :]:
            self._read += len(data)
            self.streams.take(data)
            if not self.streams.closed:
                self.flush()
        said = b" ".join([*(word.encode() for word in self.streams.happened[number]), self.streams.received[number]])
        return said if number in self.streams.ended else said + b"..."

    def server_sends(self, data: bytes, server: int = -1) -> None:
        """Let a server send bytes, by default the newest."""
        self.feed(events.DataReceived(self.servers[server], data))

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


def server_end(wire: Wire, server: int = -1) -> h2.connection.H2Connection:
    """Return a server's end of a connection, by default the newest, which speaks HTTP/2 and has read what was sent."""
    end = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    end.initiate_connection()
    end.receive_data(wire.sent[wire.servers[server]])
    return end


def requests_at(wire: Wire, server: int = -1) -> list[bytes]:
    """Return the requests that a server got over HTTP/2: method, path, body, and "..." if more may come."""
    end = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    end.initiate_connection()
    got: dict[int | None, bytes] = {}
    for event in end.receive_data(wire.sent[wire.servers[server]]):
        if isinstance(event, h2.events.RequestReceived):
            named = {bytes(name): bytes(value) for name, value in event.headers}
            got[event.stream_id] = named[b":method"] + b" " + named[b":path"] + b" ..."
        elif isinstance(event, h2.events.DataReceived):
            got[event.stream_id] = got[event.stream_id].removesuffix(b"...") + event.data + b"..."
        elif isinstance(event, h2.events.StreamEnded):
            got[event.stream_id] = got[event.stream_id].removesuffix(b"...")
        elif isinstance(event, h2.events.StreamReset):
            got[event.stream_id] += b" reset"
    return [*got.values()]


def goaway(last: int, code: int = 0, text: bytes = b"") -> bytes:
    """Return the frame by which a server ends an HTTP/2 connection after its stream `last`."""
    body = last.to_bytes(4, "big") + code.to_bytes(4, "big") + text
    return len(body).to_bytes(3, "big") + b"\7\0\0\0\0\0" + body
