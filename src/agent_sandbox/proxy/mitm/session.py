"""One client connection behind the front: mitmproxy's handler with our hooks and dialler, and no way to fail open."""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast, override

from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.proxy import commands, events, mode_specs, server

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.audit.record import AuditRecord, Event
from agent_sandbox.proxy.exchange.hook_runner import HookRunner
from agent_sandbox.proxy.exchange.hooks import Hooks
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.http_layer import Destination, PolicyReplaced
from agent_sandbox.proxy.mitm.options import EngineOptions, as_mitmproxy
from agent_sandbox.proxy.net.bulk_reader import BulkReader
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler
from agent_sandbox.proxy.net.linger_close import linger_close
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tls.contexts import HTTP2
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, Dialler, NotReached
from agent_sandbox.proxy.upstream.proxy_connect import Streams

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
LAST_WORDS_SECONDS = 1.0
REGULAR = mode_specs.ProxyMode.parse("regular")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What all sessions share."""

    hooks: Hooks
    dialler: Dialler
    limits: Limits
    options: EngineOptions
    record: Callable[[AuditRecord], None]
    policy: Callable[[], Policy]
    sessions: "set[Session]" = field(default_factory=set)
    turns: FairScheduler = field(default_factory=lambda: FairScheduler(time.monotonic))

    @property
    def crowded(self) -> float:
        """How many times as many sessions there are as may each hold all that one may."""
        return len(self.sessions) / self.limits.crowd


class Session(server.LiveConnectionHandler):
    """Runs mitmproxy's layers over one socket."""

    def __init__(self, engine: Engine, tunnel: Tunnel, reader: PeekableReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(_as_stream(reader), writer, as_mitmproxy(engine.options), REGULAR)
        self._engine = engine
        self._tunnel = tunnel
        self._place = reader.place
        runner = HookRunner(engine.hooks, tunnel, on_fault=self._record_fault, close=self.abort)
        self.layer: Destination = Destination(self.layer.context, tunnel, engine.limits, runner.run, self._reset)
        self._moved = asyncio.Event()
        self._paused = False
        self._took = 0.0
        reader.in_sips = partial(self._in_sips, self.client)

    @override
    async def handle_client(self) -> None:
        self._engine.sessions.add(self)
        try:
            await super().handle_client()
        finally:
            self._engine.sessions.discard(self)

    def _in_sips(self, connection: Connection) -> bool:
        """Tell whether to read little at once: of what is or may turn out to be HTTP/2, and where many are served."""
        in_frames = connection.tls and (connection.alpn == HTTP2 or not connection.tls_established)
        return in_frames or self._engine.crowded > 1

    @override
    async def handle_hook(self, hook: commands.StartHook) -> None:
        """Do nothing: what has a function of ours was run by the outermost layer, in place."""

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
            # What mitmproxy does not catch ends the task of one side; the other would wait for ever.
            if not passed:
                self.abort()
            self._moved.set()

    @override
    async def drain_writers(self) -> None:
        if seconds := self._engine.turns.wait(self._took):
            await asyncio.sleep(seconds)
        await super().drain_writers()  # type: ignore[no-untyped-call]
        to_client = asyncio.current_task() is not self.transports[self.client].handler
        # Never both at once: each would wait for the window that the other has to read of.
        while not self._paused and self._holds_much(to_client=to_client):
            self._paused = True
            self._moved.clear()
            try:
                await self._moved.wait()
            finally:
                self._paused = False

    def _holds_much(self, *, to_client: bool) -> bool:
        limits = self._engine.limits
        if not to_client and self.layer.behind > limits.head_bytes:
            return True
        return self.layer.held(to_client=to_client) * max(1, self._engine.crowded) > limits.held_bytes

    def abort(self) -> None:
        """Close the client's connection, and everything that was opened for it."""
        writer = self._writer(self.client)
        if writer is not None:
            writer.transport.abort()
        # A sender that is paused looks up when the other side moves, or is gone.
        for peer in self._servers():
            self._drop(peer)

    def _servers(self) -> list[Server]:
        return [peer for peer in self.transports if isinstance(peer, Server)]

    def _reset(self, connection: Connection) -> None:
        """End a connection so that its other side sees that something went wrong."""
        writer = self._writer(connection)
        if writer is not None:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()

    def _drop(self, peer: Server) -> None:
        # One that is still being dialled would be used when it is reached, by the next request if not by this one.
        transport = self.transports[peer]
        if transport.writer is None and transport.handler is not None:
            transport.handler.cancel("it may not be dialled any more")
        self._reset(peer)

    def _writer(self, connection: Connection) -> asyncio.StreamWriter | None:
        transport = self.transports.get(connection)
        return cast("asyncio.StreamWriter | None", transport.writer) if transport is not None else None

    async def review(self, revision: PolicyTransition) -> bool:
        """End what another policy does not allow: requests, and connections that lead where nothing may go."""
        client, replaced = self._writer(self.client), PolicyReplaced(revision)
        if client is None:
            return False
        await self.server_event(replaced)
        for peer in self._servers():
            host, port, *_ = peer.address or ("", 0)
            if not revision.decide_connect(host, port).allowed:
                self._drop(peer)
        if self._outlived(revision) and self.layer.idle:
            self.abort()
            return True
        ended = bool(replaced.ended) or self._outlived(revision)
        if ended and (self.client.alpn != HTTP2 or self._outlived(revision)):
            # Long enough for a client that listens to read why.
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, client.transport.abort)
        return ended

    def _outlived(self, revision: PolicyTransition) -> bool:
        # A tunnel that was refused and would not be now is closed too: its client opens another one, which works.
        tunnel = self._tunnel
        if tunnel.carries is Carries.PROXY:
            return False
        if tunnel.refused is not None:
            return revision.opens(tunnel.host, tunnel.port)
        return not revision.decide_connect(tunnel.host, tunnel.port).allowed

    @override
    async def open_connection(self, command: commands.OpenConnection) -> None:
        connection = command.connection
        address = connection.address
        if address is None or not self._may_dial(address):
            await self._not_opened(command, NotReached("only the decided destination is ever dialled"))
            return
        async with AsyncExitStack() as held:
            streams = await self._dial(command, address, held)
            if streams is None:
                return
            reader, writer = streams
            connection.state = ConnectionState.OPEN
            connection.peername = writer.get_extra_info("peername")
            connection.sockname = writer.get_extra_info("sockname")
            gulps = BulkReader(reader, on_reset=lambda: setattr(connection, "error", "the server reset the connection"))
            gulps.in_sips = partial(self._in_sips, connection)
            self.transports[connection] = server.ConnectionIO(asyncio.current_task(), _as_stream(gulps), writer)
            patience = self._wait_for_handshake(connection, writer)
            await self.server_event(events.OpenConnectionCompleted(command, None))
            try:
                await self.handle_connection(connection)
            finally:
                patience.cancel()
                await linger_close(writer, seconds=self._engine.limits.closing_seconds)

    async def _dial(
        self, command: commands.OpenConnection, address: tuple[str, int], held: AsyncExitStack
    ) -> Streams | None:
        began_under = self._engine.policy()
        streams, why = None, NotReached("a fault of the proxy, or a cancellation, kept it from being dialled")
        try:
            await held.enter_async_context(self.max_conns[address])
            dialled = await self._engine.dialler.dial(*address)
            streams = await self._unless_replaced(began_under, address, dialled)
        except DialError as error:
            why = error.why
        finally:
            # Whatever went wrong, the layers are told: they would wait for ever.
            if streams is None:
                await self._not_opened(command, why)
        return streams

    async def _unless_replaced(self, began_under: Policy, address: tuple[str, int], dialled: Streams) -> Streams | None:
        """Hold what was reached against the policy that is in force now: nothing is sent where it does not lead."""
        revision = PolicyTransition(old=began_under, new=self._engine.policy())
        if revision.old is revision.new or revision.decide_connect(*address).allowed:
            return dialled
        dialled[1].transport.abort()
        await self.server_event(PolicyReplaced(revision))
        return None

    def _wait_for_handshake(self, connection: Server, writer: asyncio.StreamWriter) -> asyncio.TimerHandle:
        # A server that accepts and then says nothing would hold the client for as long as the idle time-out.
        def lose_patience() -> None:
            if connection.tls and not connection.tls_established:
                writer.transport.abort()

        return asyncio.get_running_loop().call_later(self._engine.limits.hello_seconds, lose_patience)

    def _may_dial(self, address: tuple[str, int]) -> bool:
        tunnel = self._tunnel
        return tunnel.refused is None and (tunnel.carries is Carries.PROXY or address == (tunnel.host, tunnel.port))

    async def _not_opened(self, command: commands.OpenConnection, why: NotReached) -> None:
        command.connection.error = why
        self.transports.pop(command.connection, None)
        await self.server_event(events.OpenConnectionCompleted(command, why))

    @override
    def log(self, message: str, level: int = logging.INFO, exc_info: Any = None) -> None:
        # mitmproxy logs that one of its layers fell over, and leaves the connection open and mute.
        if level >= logging.ERROR:
            fault = exc_info[1] if isinstance(exc_info, tuple) else message
            logging.getLogger(__name__).error("%s", message, exc_info=exc_info)
            self._record_fault(f"a fault in the protocol engine: {fault}")
            self.abort()

    def _record_fault(self, reason: str) -> None:
        tunnel = self._tunnel
        line = AuditRecord(event=Event.FAULT, reason=reason, host=tunnel.host, port=tunnel.port, client=tunnel.client)
        self._engine.record(line)


def _as_stream(reader: BulkReader) -> asyncio.StreamReader:
    # Of a reader, mitmproxy uses `read` alone.
    return cast("asyncio.StreamReader", reader)
