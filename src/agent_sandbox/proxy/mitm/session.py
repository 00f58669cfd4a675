"""One client connection: mitmproxy's handler with our hooks and dialler, which fails closed."""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, cast, override

from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.proxy import commands, events, mode_specs
from mitmproxy.proxy.server import ConnectionIO, LiveConnectionHandler, TimeoutWatchdog
from msgspec import Struct

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.engine import LINGER_SECONDS, Engine
from agent_sandbox.proxy.exchange.review import outlived
from agent_sandbox.proxy.mitm.hook_runner import HookRunner
from agent_sandbox.proxy.mitm.http_layer import Destination, PolicyReplaced, Resumed
from agent_sandbox.proxy.mitm.shared_server import RESET_BY_SERVER, SharedServer, Sharing
from agent_sandbox.proxy.mitm.stream import TurnHook
from agent_sandbox.proxy.net.bulk_reader import LARGE_READ, SMALL_READ, BulkReader
from agent_sandbox.proxy.net.linger_close import linger_close
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tls.contexts import HTTP2
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.upstream.proxy_connect import Streams

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
INTERRUPTED = NotReached("an error in the proxy, or a cancellation, prevented the connection")
REGULAR = mode_specs.ProxyMode.parse("regular")


class EngineOptions(Struct, frozen=True, kw_only=True):
    """Replaces `mitmproxy.options.Options`. An attribute that is missing here is an error, not a default."""

    connection_strategy: str = "lazy"  # connect only after a request is allowed
    rawtcp: bool = False  # never forward anything but HTTP
    websocket: bool = False  # HTTP/2 clients have no upgrade
    validate_inbound_headers: bool = True
    normalize_outbound_headers: bool = True
    store_streamed_bodies: bool = False
    stream_large_bodies: None = None  # each flow is streamed by its hooks; this option breaks early denials
    body_size_limit: None = None
    keep_host_header: bool = False
    proxy_debug: bool = False
    http2_ping_keepalive: int = 58
    tcp_timeout: int = 600


class Watchdog(TimeoutWatchdog):
    """mitmproxy's idle timeout, with a way to end it: mitmproxy keeps its task to itself."""

    _task: asyncio.Task[None] | None = None
    _is_over = False

    @override
    async def watch(self) -> None:
        self._task = asyncio.current_task()
        if not self._is_over:
            await super().watch()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """End the task, also if it has not begun."""
        self._is_over = True
        if self._task is not None:
            self._task.cancel()


class Session(LiveConnectionHandler):
    """Runs mitmproxy's layers over one socket."""

    def __init__(self, engine: Engine, tunnel: Tunnel, reader: PeekableReader, writer: asyncio.StreamWriter) -> None:
        options: Any = EngineOptions(tcp_timeout=engine.limits.idle_seconds)
        super().__init__(_as_stream(reader), writer, options, REGULAR)
        self._watchdog = self.timeout_watchdog = Watchdog(engine.limits.idle_seconds, self.on_timeout)
        self._engine = engine
        self._tunnel = tunnel
        self._place = reader.place
        runner = HookRunner(engine.hooks, tunnel, on_fault=self._record_fault, close=self.abort)
        self._sharing = Sharing(engine, tunnel)
        self.layer: Destination = Destination(
            self.layer.context, tunnel, engine.limits, runner.run, self._reset, self._resume, self._sharing
        )
        self._moved = asyncio.Event()
        self._paused = False
        self._resuming: set[asyncio.Task[None]] = set()
        self._took = 0.0
        reader.read_size = partial(self._read_size, self.client)

    @override
    async def handle_client(self) -> None:
        self._engine.sessions.add(self)
        try:
            await super().handle_client()
        finally:
            self._engine.sessions.discard(self)
            # Some are left only if this task was cancelled or failed.
            self._watchdog.end()
            handlers = (transport.handler for transport in self.transports.values())
            for task in filter(None, (*handlers, *self.wakeup_timer)):
                task.cancel()

    def _read_size(self, connection: Connection) -> int:
        """Return how much to read at once: little if processing it may be expensive."""
        if connection is not self.client and (size := self.layer.searched_read):
            return size
        # If this is or may become HTTP/2, or if there are many sessions.
        in_frames = connection.tls and (connection.alpn == HTTP2 or not connection.tls_established)
        return SMALL_READ if in_frames or self._engine.crowded > 1 else LARGE_READ

    @override
    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Do nothing: `Destination` has already run our hooks."""

    @override
    async def server_event(self, event: events.Event) -> None:
        if isinstance(event, events.DataReceived) and event.connection is not self.client:
            self._place.served()
        passed, began = False, time.monotonic()
        try:
            await super().server_event(event)
            passed = True
        finally:
            self._took = time.monotonic() - began
            # An exception that mitmproxy does not catch ends the task of one side; the other would wait forever.
            if not passed:
                self.abort()
            self._moved.set()

    @override
    async def drain_writers(self) -> None:
        if seconds := self._engine.turns.wait(self._took):
            await asyncio.sleep(seconds)
        await super().drain_writers()  # type: ignore[no-untyped-call]
        client = self.transports.get(self.client)
        to_client = client is None or asyncio.current_task() is not client.handler
        # Never pause both sides: each would wait for a window update that the other has to read.
        while self._holds_much(to_client=to_client) and not self._paused:
            self._paused = True
            self._moved.clear()
            try:
                await self._moved.wait()
            finally:
                self._paused = False

    def _holds_much(self, *, to_client: bool) -> bool:
        held = self.layer.held(to_client=to_client)
        if not to_client:
            self.layer.limit_copies(self._most_held - held)
        return held > self._most_held

    @property
    def _most_held(self) -> float:
        return self._engine.limits.held_bytes / max(1, self._engine.crowded)

    def abort(self) -> None:
        """Reset the client's connection and all server connections opened for it."""
        writer = self._writer(self.client)
        if writer is not None:
            writer.transport.abort()
        # A paused sender wakes up only when the other side makes progress or closes.
        for peer in self._servers():
            self._drop(peer)

    def _servers(self) -> list[Server]:
        return [peer for peer in self.transports if isinstance(peer, Server)]

    def _reset(self, connection: Connection) -> None:
        """Reset a connection, so that the other side sees an error and not a normal end."""
        writer = self._writer(connection)
        if writer is not None:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()

    def _drop(self, peer: Server) -> None:
        # Once open, a connection that is still being opened would be used, if only by the next request.
        transport = self.transports[peer]
        if transport.writer is None and transport.handler is not None:
            transport.handler.cancel("the policy no longer allows this server")
        self._reset(peer)

    def _writer(self, connection: Connection) -> asyncio.StreamWriter | None:
        transport = self.transports.get(connection)
        return cast("asyncio.StreamWriter | None", transport.writer) if transport is not None else None

    def _resume(self, event: Resumed) -> None:
        """Go on with a request that has waited for a person, or waits for its turn."""
        hook = event.hook
        going_on = self._go_on(event, hook) if isinstance(hook, TurnHook) else self.server_event(event)
        task = asyncio.get_running_loop().create_task(going_on)
        self._resuming.add(task)
        task.add_done_callback(self._resuming.discard)

    async def _go_on(self, event: Resumed, hook: TurnHook) -> None:
        """Filter the next pieces, once the client has taken most of the last: a hundred times what came in."""
        while self.layer.unsent(to_client=True) > self._most_held:
            self._moved.clear()
            await self._moved.wait()
        writer = self._writer(self.client)
        if writer is not None:
            with suppress(OSError):
                await writer.drain()
        await hook.meter.ready()
        async with self._engine.turns.turn(hook.work):
            await self.server_event(event)

    async def review(self, revision: PolicyTransition) -> bool:
        """End the requests and server connections that the new policy denies.

        Return whether any request, or the client connection, was ended.
        """
        revision = revision.granting(self._grants)
        client, replaced = self._writer(self.client), PolicyReplaced(revision)
        if client is None:
            return False
        waited = any(exchange.waiting is not None for exchange in self.layer.exchanges)
        is_outlived = outlived(self._tunnel, revision, waited=waited)
        await self.server_event(replaced)
        for peer in self._servers():
            host, port, *_ = peer.address or ("", 0)
            if not revision.decide_connect(host, port).allowed:
                self._drop(peer)
        if not is_outlived:
            return bool(replaced.ended)
        if self.layer.idle:
            self.abort()
        else:  # leave the client time to read the reason
            asyncio.get_running_loop().call_later(LINGER_SECONDS, client.transport.abort)
        return True

    @property
    def _grants(self) -> tuple[Rule, ...]:
        """What a person granted to single requests in progress."""
        return tuple(rule for exchange in self.layer.exchanges for rule in exchange.grants)

    @override
    async def open_connection(self, command: commands.OpenConnection) -> None:
        connection = command.connection
        if self.client not in self.transports:  # the client has left, so nothing would close this connection
            await self._not_opened(command, INTERRUPTED)
            return
        if isinstance(connection, SharedServer):
            await self._open_shared(command, connection)
            return
        address = connection.address
        if address is None or not self._may_dial(address):
            await self._not_opened(command, NotReached("the proxy connects only to the destination that was decided"))
            return
        async with AsyncExitStack() as held:
            streams = await self._opened(command, self._dial(address, held))
            if streams is None:
                return
            reader, writer = streams
            connection.state = ConnectionState.OPEN
            connection.peername = writer.get_extra_info("peername")
            connection.sockname = writer.get_extra_info("sockname")
            bulk = BulkReader(reader, on_reset=lambda: setattr(connection, "error", RESET_BY_SERVER))
            bulk.read_size = partial(self._read_size, connection)
            self.transports[connection] = ConnectionIO(asyncio.current_task(), _as_stream(bulk), writer)
            patience = self._wait_for_handshake(connection, writer)
            await self.server_event(events.OpenConnectionCompleted(command, None))
            try:
                await self._serve(connection)
            finally:
                patience.cancel()
                await linger_close(writer, seconds=self._engine.limits.closing_seconds)

    async def _open_shared(self, command: commands.OpenConnection, server: SharedServer) -> None:
        try:
            opening = self._sharing.open(server, read_size=partial(self._read_size, server))
            if (stream := await self._opened(command, opening)) is None:
                return
            server.state = ConnectionState.OPEN
            self.transports[server] = ConnectionIO(
                asyncio.current_task(), cast("asyncio.StreamReader", stream), cast("asyncio.StreamWriter", stream)
            )
            await self.server_event(events.OpenConnectionCompleted(command, None))
            await self._serve(server)
        finally:
            self._sharing.close(server)

    async def _opened[T](self, command: commands.OpenConnection, opening: Awaitable[T | None]) -> T | None:
        """Return the connection. If there is none, tell the layers, which would wait forever."""
        connection, why = None, INTERRUPTED
        try:
            connection = await opening
        except DialError as error:
            why = error.why
        finally:
            if connection is None:
                await self._not_opened(command, why)
        return connection

    async def _serve(self, server: Server) -> None:
        """Pass on what a server sends until its connection ends. After an error, the client would wait forever."""
        try:
            await self.handle_connection(server)
        except Exception as error:  # noqa: BLE001 - recorded, and the client's connection is reset
            self.log("a server connection failed", logging.ERROR, (type(error), error, error.__traceback__))

    async def _dial(self, address: tuple[str, int], held: AsyncExitStack) -> Streams | None:
        began_under = self._engine.policy()
        await held.enter_async_context(self.max_conns[address])
        dialled = await self._engine.dialler.dial(*address)
        return await self._unless_replaced(began_under, address, dialled)

    async def _unless_replaced(self, began_under: Policy, address: tuple[str, int], dialled: Streams) -> Streams | None:
        """Return `dialled` unless a policy loaded in the meantime denies the address; then abort it, return None."""
        revision = PolicyTransition(old=began_under, new=self._engine.policy())
        granted = revision.granting(self._grants)
        if revision.old is revision.new or granted.decide_connect(*address).allowed:
            return dialled
        dialled[1].transport.abort()
        await self.server_event(PolicyReplaced(revision))
        return None

    def _wait_for_handshake(self, connection: Server, writer: asyncio.StreamWriter) -> asyncio.TimerHandle:
        # A server that accepts and then sends nothing would make the client wait for the whole idle timeout.
        def time_out() -> None:
            if connection.tls and not connection.tls_established:
                writer.transport.abort()

        return asyncio.get_running_loop().call_later(self._engine.limits.hello_seconds, time_out)

    def _may_dial(self, address: tuple[str, int]) -> bool:
        return self._tunnel.refused is None and address == (self._tunnel.host, self._tunnel.port)

    async def _not_opened(self, command: commands.OpenConnection, why: NotReached) -> None:
        command.connection.error = why
        self.transports.pop(command.connection, None)
        await self.server_event(events.OpenConnectionCompleted(command, why))

    @override
    def log(self, message: str, level: int = logging.INFO, exc_info: Any = None) -> None:
        # When one of its layers raises, mitmproxy only logs it, and leaves the connection open but dead.
        if level >= logging.ERROR:
            fault = exc_info[1] if isinstance(exc_info, tuple) else message
            logging.getLogger(__name__).error("%s", message, exc_info=exc_info)
            self._record_fault(f"error in the protocol engine: {fault}")
            self.abort()

    def _record_fault(self, reason: str) -> None:
        tunnel = self._tunnel
        line = AuditRecord(event=Event.FAULT, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        self._engine.record(line)


def _as_stream(reader: BulkReader) -> asyncio.StreamReader:
    # mitmproxy calls only `read`.
    return cast("asyncio.StreamReader", reader)
