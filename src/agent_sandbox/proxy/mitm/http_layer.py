"""The HTTP layers of one client connection: choose the protocol classes, and bind requests to the tunnel."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, override

from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.commands import CloseConnection, Command, SendData, StartHook
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import (
    GetHttpConnection,
    GetHttpConnectionCompleted,
    HttpClient,
    HttpLayer,
    HTTPMode,
    HttpStream,
    RegisterHttpConnection,
)
from mitmproxy.proxy.layers.http._events import RequestData, ResponseData
from mitmproxy.proxy.layers.http._http2 import Http2Connection
from mitmproxy.proxy.layers.tls import ClientTLSLayer

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.bulk_tls import BulkTls
from agent_sandbox.proxy.mitm.flows import ExchangeOwner
from agent_sandbox.proxy.mitm.http1_client import AbortConnection, ExchangeOver
from agent_sandbox.proxy.mitm.http2_client import StrictHttp2Client
from agent_sandbox.proxy.mitm.http2_server import StrictHttp2Server
from agent_sandbox.proxy.mitm.shared_server import SharedServer, Sharing
from agent_sandbox.proxy.mitm.stream import AbortRequest, Carried, MalformedHook, OwnConnection, StrictStream, TurnHook
from agent_sandbox.proxy.net.bulk_reader import COMPRESSED_READ, SMALL_READ
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tls.contexts import HTTP2
from agent_sandbox.proxy.tunnel import Tunnel

Commands = layer.CommandGenerator[None]
NOT_HTTP2 = "the client offered HTTP/2, but did not agree on it"
EVENT_BYTES = 256
MOST_SERVERS = 5  # connections that mitmproxy keeps to one server at once


@dataclass
class PolicyReplaced(events.Event):
    """A new policy is in force. `ended` counts the requests that were aborted because of it."""

    revision: PolicyTransition
    ended: int = 0


@dataclass
class Resumed(events.Event):
    """The request of this hook has stopped waiting for a person, or has its turn."""

    hook: StartHook


class Spent(layer.Layer):
    """Ignores what comes for streams that have ended, and from a client that is refused."""

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        yield from ()


class Streams(dict[int, HttpStream]):
    """The streams under way. One that ends lets go of its timer, which would keep it in memory for ten seconds."""

    def __init__(self, sources: dict[Command, layer.Layer], spent: Spent) -> None:
        super().__init__()
        self._sources, self._spent = sources, spent

    @override
    def pop(self, key: int, default: Any = None) -> Any:
        stream = super().pop(key, default)
        if isinstance(stream, StrictStream) and stream.patience in self._sources:
            self._sources[stream.patience] = self._spent
        return stream


class StrictHttpLayer(HttpLayer):
    """mitmproxy's HTTP layer, with our strict protocol classes."""

    def __init__(self, context: Context, limits: Limits, sharing: Sharing | None = None) -> None:
        # In `transparent` mode each request goes to context.server.address, whatever host it names.
        super().__init__(context, HTTPMode.transparent)
        self._limits = limits
        self.streams = Streams(self.command_sources, Spent(context.fork()))
        self._sharing = sharing
        self._over: set[Connection] = set()
        self._carried: Carried = {}

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, PolicyReplaced):
            yield from self._review(event)
            return
        if not isinstance(event, events.Start):
            yield from super()._handle_event(event)
            if isinstance(event, events.ConnectionClosed):
                self._over.add(event.connection)
            return
        if self.context.client.alpn != HTTP2:  # its second ClientHello may offer something else than the first
            self.connections[self.context.client] = Spent(self.context.fork())
            yield MalformedHook(NOT_HTTP2)
            yield CloseConnection(self.context.client)
            return
        server = StrictHttp2Server(self.context.fork(), self._limits)
        self.connections[self.context.client] = server
        yield from self.event_to_child(server, event)

    def _review(self, event: PolicyReplaced) -> Commands:
        for stream in [*self.streams.values()]:
            denial = stream.revoke(event.revision) if isinstance(stream, StrictStream) else None
            if denial is not None:
                event.ended += 1
                yield from self._wait_no_longer(stream, denial.reason)
                yield from self.event_to_child(stream, AbortRequest(denial))

    def _wait_no_longer(self, stream: layer.Layer, reason: str) -> Commands:
        """Fail a stream that still waits for its upstream connection: it handles no other event until then."""
        for waiting in self.waiting_for_establishment.values():
            for command in [command for command in waiting if self.command_sources[command] is stream]:
                # Not `remove`: commands that wait for the same server compare equal.
                waiting[:] = [other for other in waiting if other is not command]
                del self.command_sources[command]
                yield from self.event_to_child(stream, GetHttpConnectionCompleted(command, (None, reason)))

    def owner_of(self, hook: StartHook) -> ExchangeOwner:
        """Return the stream that `hook` comes from; for a hook of another layer, an owner without an exchange."""
        source = self.command_sources.get(hook)
        return source if isinstance(source, StrictStream) else ExchangeOwner()

    @override
    def make_stream(self, stream_id: int) -> Commands:
        self.streams[stream_id] = stream = StrictStream(self.context.fork(), stream_id, self._limits)
        yield from self.event_to_child(stream, events.Start())

    @override
    def get_connection(self, event: GetHttpConnection, *, reuse: bool = True) -> Commands:
        yield from self._close_idle_servers()
        # mitmproxy remembers a failed connection until the client leaves; clear the error to try again.
        for known in self.connections:
            if isinstance(known, Server) and known not in self.waiting_for_establishment:
                known.error = None
        assert isinstance(event, OwnConnection)  # noqa: S101 - our streams send no other kind
        event.carried = self._carried
        event.leaving = [known for known, end in self.connections.items() if known.connected and _is_leaving(end)]
        yield from self._make_room(event)
        if event.shared is not None and self._may_share(event, event.shared):
            yield from self._open_shared(event, event.shared)
            return
        yield from super().get_connection(event, reuse=reuse)
        self._carried = {known: self._carried.get(known, event.echoes) for known in self.connections}

    def _may_share(self, event: OwnConnection, server: SharedServer) -> bool:
        """Return whether to open `server`: for the only request in progress, if no open connection can carry it."""
        if len(self.streams) != 1 or self._sharing is None or not self._sharing.allows(server):
            return False
        return self._needs_new(event)

    def _needs_new(self, event: OwnConnection) -> bool:
        known = (one for one in self.connections if one.connected or one in self.waiting_for_establishment)
        return not any(map(event.connection_spec_matches, known))

    def _make_room(self, event: OwnConnection) -> Commands:
        """Close the oldest connection that its server is ending, if a new one would have to wait for its end."""
        if event.leaving and self._needs_new(event):
            servers = [known for known in self.connections if isinstance(known, Server) and known.connected]
            if len(servers) >= MOST_SERVERS:
                yield CloseConnection(event.leaving[0])

    def _open_shared(self, event: OwnConnection, server: SharedServer) -> Commands:
        context = self.context.fork()
        context.server = server
        self.connections[server] = client = HttpClient(context)
        self.waiting_for_establishment[server].append(event)
        yield from self.event_to_child(client, events.Start())

    def _close_idle_servers(self) -> Commands:
        # mitmproxy keeps every connection until the client leaves: closed ones slow down each request, and each open
        # one uses a socket.
        in_use = {stream.context.server for stream in self.streams.values()}.union(self.waiting_for_establishment)
        idle = [known for known in self.connections if isinstance(known, Server) and known not in in_use]
        for known in self._over.intersection(idle):
            del self.connections[known]
        self._over.intersection_update(self.connections)
        for known in idle[: -self._limits.servers_idle]:
            if known.connected:
                yield CloseConnection(known)

    @override
    def register_connection(self, command: RegisterHttpConnection) -> Commands:
        yield from super().register_connection(command)
        if command.err:
            self._over.add(command.connection)


def _is_leaving(end: layer.Layer) -> bool:
    http2 = http2_of(end)
    return isinstance(http2, StrictHttp2Client) and bool(http2.leaving)


class RejectionTls(BulkTls, ClientTLSLayer):
    """Sends close_notify before closing. mitmproxy does not, and OpenSSL 3 then reports a truncation attack."""

    @override
    def send_close(self, command: CloseConnection) -> Commands:
        if self.conn.tls_established and self.conn.state & ConnectionState.CAN_WRITE:
            self.tls.shutdown()
            yield from self.tls_interact()
        yield from super().send_close(command)


class Destination(layer.Layer):
    """The outermost layer: binds the connection to its tunnel. Unlike mitmproxy, it never guesses the next layer.

    It runs hooks directly, because ours are fast. mitmproxy starts a task for each, four times a request.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - whom it needs
        self,
        context: Context,
        tunnel: Tunnel,
        limits: Limits,
        run: Callable[[StartHook, ExchangeOwner], None],
        abort: Callable[[Connection], None],
        resume: Callable[[Resumed], None],
        sharing: Sharing | None = None,
    ) -> None:
        super().__init__(context)
        self._run = run
        self._abort = abort
        self._resume = resume
        self._sharing = sharing
        context.server = Server(address=(tunnel.host, tunnel.port), tls=True)
        self._child: layer.Layer = RejectionTls(context)
        self._child.child_layer = self._http = StrictHttpLayer(context, limits, sharing)

    @property
    def idle(self) -> bool:
        """Whether no request is in progress."""
        return not self._http.streams

    @property
    def exchanges(self) -> list[Exchange]:
        """The requests in progress."""
        owners = (stream for stream in self._http.streams.values() if isinstance(stream, StrictStream))
        return [owner.exchange for owner in owners if owner.exchange is not None]

    @property
    def searched_read(self) -> int:
        """How much to read at once of a response that is decompressed or searched, 0 if it does not matter."""
        if any(exchange.received.unpacking for exchange in self.exchanges):
            return COMPRESSED_READ
        searched = [exchange for exchange in self.exchanges if exchange.echoes]
        return SMALL_READ if any(exchange.response is None for exchange in searched) else 0

    def held(self, *, to_client: bool) -> int:
        """Return how many bytes are buffered for the client, or for servers, or wait to be filtered."""
        return self.unsent(to_client=to_client) + waiting_bytes(self._http.streams.values(), to_client=to_client)

    def unsent(self, *, to_client: bool) -> int:
        """Return how many bytes the client, or the servers, have to take before any others."""
        ends = self._http.connections.items()
        client = self.context.client
        return buffered_bytes(end for peer, end in ends if (peer == client) is to_client and peer.connected)

    def limit_copies(self, size: float) -> None:
        """Forget copies of request bodies, the largest first, until the others take at most `size` bytes in all."""
        copies = [
            stream for stream in self._http.streams.values() if isinstance(stream, StrictStream) and stream.copied
        ]
        while copies and sum(len(stream.copied or b"") for stream in copies) > size:
            largest = max(copies, key=lambda stream: len(stream.copied or b""))
            largest.copied = None
            copies.remove(largest)

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        # As in mitmproxy: complete a hook after the event that caused it, and before the next event.
        waiting = deque(self._completed(event.hook) if isinstance(event, Resumed) else [event])
        while waiting:
            for command in coalesce(self._child.handle_event(waiting.popleft())):
                if not isinstance(command, StartHook):
                    if isinstance(command, ExchangeOver):
                        self._over(command)
                        continue
                    if isinstance(command, AbortConnection):
                        self._abort(command.connection)
                    yield command
                    continue
                owner = self._http.owner_of(command)
                self._run(command, owner)
                if not command.blocking:
                    continue
                if isinstance(command, TurnHook):
                    self._resume(Resumed(command))
                elif owner.exchange is not None and owner.exchange.waiting is not None and owner.exchange.waits:
                    owner.exchange.waiting.resume = partial(self._resume, Resumed(command))
                else:
                    waiting.append(events.HookCompleted(command))

    def _over(self, done: ExchangeOver) -> None:
        if self._sharing is not None:
            self._sharing.over(done)

    def _completed(self, hook: StartHook) -> list[events.Event]:
        """Decide a request again that has waited for a person."""
        owner = self._http.owner_of(hook)
        if owner.exchange is None:
            return []  # its stream has ended
        self._run(hook, owner)
        return [events.HookCompleted(hook)]


def coalesce(commands: Iterable[Command]) -> Iterator[Command]:
    """Yield `commands` in order, with consecutive sends to the same connection joined into one.

    asyncio recounts its buffer at each write: thousands of tiny ones blocked all other connections for seconds.
    """
    for receiver, group in groupby(commands, key=_receiver):
        if receiver is None:
            yield from group
        else:
            yield SendData(receiver, b"".join(command.data for command in group if isinstance(command, SendData)))


def _receiver(command: Command) -> Connection | None:
    return command.connection if isinstance(command, SendData) else None


def buffered_bytes(layers: Iterable[layer.Layer]) -> int:
    """Return the number of bytes that the HTTP/2 connections inside `layers` still have to send.

    mitmproxy gives every HTTP/2 sender an unlimited window and buffers what the receiver's window does not take. A
    client that never reads its download would make it buffer all of that; `session` pauses the sender instead.
    """
    queues = (queue for end in map(http2_of, layers) if end for queue in end.h2_conn.stream_buffers.values())
    return sum(len(piece.data) for queue in queues for piece in queue)


def waiting_bytes(streams: Iterable[layer.Layer], *, to_client: bool) -> int:
    """Return the number of bytes queued in `streams` that wait for their upstream connection, or for a turn.

    Each event counts for what its objects take, too: a frame may be empty.
    """
    kind = ResponseData if to_client else RequestData
    waiting = (event for stream in streams for event in stream._paused_event_queue)  # noqa: SLF001 - no public way to count
    return sum(len(event.data) + EVENT_BYTES for event in waiting if isinstance(event, kind))


def http2_of(outermost: layer.Layer) -> Http2Connection | None:
    """Return the HTTP/2 connection inside a layer, if there is one."""
    end: Any = outermost
    while end is not None and not isinstance(end, Http2Connection):
        end = getattr(end, "child_layer", None)
    return end
