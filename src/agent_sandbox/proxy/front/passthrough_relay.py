"""TLS passthrough (`inspect: false`): relay the bytes of both sides, count them, decrypt nothing.

The host comes from the ClientHello, which is forwarded unchanged. The client itself verifies the server's certificate.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Cause, Decision, Effect, Policy
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import Meter, Outcome
from agent_sandbox.proxy.net.bulk_reader import BulkReader
from agent_sandbox.proxy.net.linger_close import linger_close
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, Refused
from agent_sandbox.proxy.upstream.proxy_connect import Streams
from agent_sandbox.proxy.wire.client_hello import read_hello

NOT_DECIDED = Decision(effect=Effect.DENY, rule=None, origin=None, reason=UNDECIDED.reason)

Read = Callable[[], Awaitable[bytes]]


def is_passthrough(tunnel: Tunnel, hello: bytes, policy: Policy) -> bool:
    """Return whether the policy makes the connection a passthrough, given the first bytes from the client.

    Not with ECH, which may hide a second name: a server of many hosts would use that one.
    """
    if tunnel.carries is not Carries.TLS or tunnel.refused or not policy.passthrough(tunnel.host, tunnel.port):
        return False
    parsed = read_hello(hello)
    return parsed is not None and not parsed.encrypted


class Relay:
    """The connections to the client and to the server, and their audit record."""

    def __init__(self, engine: Engine, tunnel: Tunnel, peekable: PeekableReader, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._tunnel = tunnel
        self._peekable = peekable
        self._writers = [writer]
        self._sent, self._received = Meter(), Meter()
        self._allowed = tunnel.decision or NOT_DECIDED
        self._spend = engine.spender(engine.policy().budgets(tunnel.host, tunnel.port))
        self._taken_back = self._over = self._failed = False
        self._dialling: asyncio.Task[Streams | None] | None = None
        self._outcome = Outcome(Effect.DENY, UNDECIDED.reason, self._allowed.rule)

    async def run(self) -> None:
        """Connect, relay, and write the audit record, however the connection ends."""
        started = time.monotonic()
        try:
            streams = await self._reach()
            if streams is not None:
                await self._pass_both_ways(*streams)
        finally:
            self._engine.record(self._record(duration_ms=(time.monotonic() - started) * 1000))
            patience = self._engine.limits.closing_seconds
            await asyncio.gather(*(linger_close(writer, seconds=patience) for writer in self._writers))

    def _record(self, *, duration_ms: float) -> AuditRecord:
        tunnel, outcome = self._tunnel, self._outcome
        return AuditRecord(
            event=Event.TUNNEL,
            decision=outcome.effect,
            rule=outcome.rule,
            cause=outcome.cause,
            reason=outcome.reason,
            scheme=str(tunnel.carries),
            host=tunnel.host,
            port=tunnel.port,
            bytes_out=self._sent.count,
            bytes_in=self._received.count,
            duration_ms=duration_ms,
            client=tunnel.client,
            failed=self._failed,
        )

    def _settle(self, effect: Effect, reason: str, cause: str = "") -> None:
        self._outcome = Outcome(effect, reason, self._outcome.rule, cause)

    def abort(self) -> None:
        """Reset both connections, and stop connecting to the server."""
        for writer in self._writers:
            writer.transport.abort()
        self._over = True
        if self._dialling is not None:
            self._dialling.cancel()

    async def review(self, revision: PolicyTransition) -> bool:
        """Abort and return True if the new policy denies the connection, or inspects it."""
        decision = revision.decide_connect(self._tunnel.host, self._tunnel.port)
        if decision.allowed and revision.new.passthrough(self._tunnel.host, self._tunnel.port):
            self._spend = self._engine.spender(revision.new.budgets(self._tunnel.host, self._tunnel.port))
            return False
        why = "connections to this host are now inspected" if decision.allowed else decision.reason
        self._taken_back = True
        self._settle(Effect.DENY, f"the policy was reloaded: {why}")
        self.abort()
        return True

    async def _reach(self) -> Streams | None:
        """Connect to the server, until the client closes its connection."""
        self._dialling = dialling = asyncio.create_task(self._dial())
        watching = asyncio.create_task(self._end_with_client())
        try:
            await asyncio.wait({dialling})
        finally:
            for task in (dialling, watching):
                task.cancel()
            # Both must have ended before anything else reads from the client.
            await asyncio.wait({dialling, watching})
        if not (self._over and dialling.cancelled()):
            return dialling.result()
        if not self._taken_back:
            why = "the client left before the server was reached"
            self._settle(Effect.ALLOW, f"{self._allowed.reason}; aborted: {why}")
        return None

    async def _end_with_client(self) -> None:
        with suppress(OSError):
            while await self._peekable.more():
                if len(self._peekable.ahead) > self._engine.limits.held_bytes:
                    return
        self.abort()

    async def _dial(self) -> Streams | None:
        if not self._allowed.allowed:
            self._settle(Effect.DENY, self._allowed.reason)
            return None
        if over := self._spend("requests", 1):
            self._settle(Effect.DENY, over.reason, str(Cause.BUDGET))
            return None
        try:
            streams = await self._engine.dialler.dial(self._tunnel.host, self._tunnel.port)
        except DialError as error:
            refused = isinstance(error.why, Refused)
            effect, cause = (Effect.DENY, "address") if refused else (Effect.ALLOW, "")
            self._settle(effect, str(error.why), cause)
            self._failed = not refused
            return None
        self._writers.append(streams[1])
        self._settle(Effect.ALLOW, self._allowed.reason)
        return streams

    async def _pass_both_ways(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (client, _), from_server = self._writers, partial(self._read_server, BulkReader(reader))
        try:
            async with asyncio.timeout(self._engine.limits.idle_seconds) as patience, asyncio.TaskGroup() as both:
                both.create_task(self._pass(self._peekable.read, writer, self._sent, patience))
                both.create_task(self._pass(from_server, client, self._received, patience))
        except* OSError as broken:
            self.abort()
            if not self._taken_back:
                self._settle(self._outcome.effect, f"{self._outcome.reason}; aborted: {_cause(broken)}")

    async def _read_server(self, server: BulkReader) -> bytes:
        data = await server.read()
        self._peekable.place.served()
        return data

    async def _pass(self, read: Read, writer: asyncio.StreamWriter, meter: Meter, patience: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        while data := await read():
            if not patience.expired():  # bytes may arrive at the very moment of the timeout
                patience.reschedule(loop.time() + self._engine.limits.idle_seconds)
            if over := self._spend("upload" if meter is self._sent else "download", len(data)):
                self._taken_back = True
                self._settle(Effect.DENY, over.reason, str(Cause.BUDGET))
                self.abort()
                return
            writer.write(bytes(meter(data)))
            await writer.drain()
        # TLS to an upstream proxy cannot be half-closed; the protocol inside signals its own end.
        if writer.can_write_eof():
            writer.write_eof()


def _cause(broken: ExceptionGroup[OSError]) -> str:
    first = broken.exceptions[0]
    return "neither side sent anything for too long" if isinstance(first, TimeoutError) else str(first)
