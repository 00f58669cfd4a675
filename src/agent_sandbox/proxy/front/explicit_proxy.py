"""The explicit proxy: decide where each connection may lead, and hand it to a session or a relay."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Ambiguous, Decision, Policy, advise, decide_connect, parse_authority
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.proxy.audit.audit_log import source_port
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.front.first_bytes import judged, whole_head
from agent_sandbox.proxy.front.passthrough_relay import Relay, is_passthrough
from agent_sandbox.proxy.front.rejection import Rejection
from agent_sandbox.proxy.net.connection_limit import ConnectionLimiter
from agent_sandbox.proxy.net.linger_close import closing_with, linger_close
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import ConnectionRegistry, PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import BadHeadError, RequestHead
from agent_sandbox.proxy.wire.sniff import RawTunnelError, WrongNameError, what_it_carries

CONNECT = b"CONNECT "
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
LAST_LINES_SECONDS = 1.0

Opening = Callable[[PeekableReader, asyncio.StreamWriter, str], Awaitable[Tunnel | None]]

# On the HTTPS port, a denial is sent inside the tunnel, because most clients do not show the response to a CONNECT.
EXPLAINED_PORT = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A CONNECT that is answered with 200, with the decision of `policy`. A denial is sent inside the tunnel."""

    host: str
    port: int
    decision: Decision
    policy: Policy = field(repr=False)

    def under(self, policy: Policy) -> Decision:
        """Return the decision of `policy`, which may have replaced the one that decided before."""
        return self.decision if policy is self.policy else decide_connect(policy, host=self.host, port=self.port)


def _never(*_: object) -> bool:
    return False


class ConnectDeniedError(Exception):
    """A CONNECT that is answered with a denial."""

    def __init__(self, denial: Denial, port: int = 0) -> None:
        super().__init__(denial.reason)
        self.denial = denial
        self.port = port


def decide_tunnel(
    head: RequestHead, policy: Callable[[], Policy], asks: Callable[[str, int, Decision], bool] = _never
) -> Opened:
    """Decide the CONNECT in `head` before any connection is opened for it. Raises `ConnectDeniedError`, `BadHeadError`.

    `asks` says whether a person would be asked about a denied request: that needs the request inside the tunnel.
    """
    host, port = _destination(head)
    current = policy()
    decision = decide_connect(current, host=host, port=port)
    explained = port == EXPLAINED_PORT and not is_address(host)
    if decision.allowed or explained or asks(host, port, decision):
        return Opened(host=host, port=port, decision=decision, policy=current)
    denial = Denial(
        reason=decision.reason,
        status=current.settings.block_status,
        host=host,
        method="CONNECT",
        path="",
        rule=decision.rule,
        near_miss=decision.near_miss,
        hint=advise(host, decision),
    )
    raise ConnectDeniedError(denial, port)


def _destination(head: RequestHead) -> tuple[str, int]:
    if head.body != 0:
        raise BadHeadError("CONNECT with a body")
    try:
        destination = parse_authority(head.target, default_port=None)
        named = parse_authority(head.host, default_port=destination[1]) if head.host else destination
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    # Some clients omit the port in Host, or put 80 or 443 there regardless; so compare only the names.
    if named[0] != destination[0]:
        raise BadHeadError("the Host header of a CONNECT names a different host")
    return destination


class ExplicitProxy:
    """Serves client connections. One `serve` task runs per connection, from accept to close."""

    def __init__(
        self,
        engine: Engine,
        policy: Callable[[], Policy],
        asks: Callable[[str, int, Decision], bool] = lambda *_: False,
    ) -> None:
        self._engine = engine
        self._limits = engine.limits
        self._policy = policy
        self._asks = asks
        self._registry = ConnectionLimiter(limit=engine.limits.connections)
        self._connections = ConnectionRegistry()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._registry)

    async def review(self, revision: PolicyTransition) -> int:
        """Check all open connections against a new policy; return how many were closed."""
        self._close_idle_servers()
        return await self._connections.review(revision)

    async def end(self) -> None:
        """Close all open connections, giving each time to write its audit record."""
        self._close_idle_servers()
        await self._connections.end(seconds=LAST_LINES_SECONDS)

    def _close_idle_servers(self) -> None:
        for pool in self._engine.pools:
            pool.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client that uses the proxy variables."""
        await self.serve_by(self._open, reader, writer)

    async def serve_by(self, opening: Opening, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection. `opening` decides where it leads and returns the tunnel, None if it is refused."""
        address, port, *_ = writer.get_extra_info("peername") or ("", 0)
        source_port.set(port)
        client = f"{address}:{port}"
        with self._registry.admit(address, writer.transport.abort) as place:
            peekable = PeekableReader(reader, place)
            try:
                tunnel = await opening(peekable, writer, client)
                if tunnel is not None:
                    await self._go_on(tunnel, peekable, writer)
            except (OSError, TimeoutError, asyncio.CancelledError):
                pass  # the client left or was silent too long, or the proxy is stopping: nothing was decided
            finally:
                await linger_close(writer, seconds=self._limits.closing_seconds)

    async def _go_on(self, tunnel: Tunnel, peekable: PeekableReader, writer: asyncio.StreamWriter) -> None:
        if is_passthrough(tunnel, peekable.ahead, self._policy()):
            relay = Relay(self._engine, tunnel, peekable, writer)
            with self._connections.holding(relay), closing_with(writer, relay.abort):
                await relay.run()
        else:
            from agent_sandbox.proxy.lane.choice import CannotServeError, open_session  # noqa: PLC0415 - not to start

            rejection = Rejection(self._engine.record, peekable, writer)
            try:
                session = await open_session(self._engine, tunnel, peekable, writer)
            except RawTunnelError as fault:
                rule = tunnel.decision.rule if tunnel.decision is not None else None
                await rejection.refuse(fault, _record(tunnel.client, tunnel.host, tunnel.port, rule))
                return
            except CannotServeError as why:
                await rejection.fail(str(why), tunnel)
                return
            with self._connections.holding(session), closing_with(writer, session.abort):
                await session.handle_client()

    async def _open(self, peekable: PeekableReader, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        async with asyncio.timeout(self._limits.head_seconds):
            while CONNECT.startswith(peekable.ahead[: len(CONNECT)]) and len(peekable.ahead) < len(CONNECT):
                if not await peekable.more():
                    return None
        if peekable.ahead.startswith(CONNECT):
            return await self._open_tunnel(peekable, writer, client)
        return Tunnel(client=client, carries=Carries.PROXY, own=is_own(writer))

    async def _open_tunnel(self, peekable: PeekableReader, writer: asyncio.StreamWriter, client: str) -> Tunnel | None:
        rejection = Rejection(self._engine.record, peekable, writer)
        try:
            opened = await self._read_connect(peekable)
        except ConnectDeniedError as refused:
            await rejection.deny(
                refused.denial, _record(client, refused.denial.host, refused.port, refused.denial.rule)
            )
            return None
        except BadHeadError as bad:
            line = AuditRecord(event=Event.MALFORMED, method="CONNECT", client=client)
            await rejection.deny(Denial(reason=str(bad), status=bad.status, method="CONNECT"), line)
            return None
        writer.write(ESTABLISHED)
        return await self._peek(opened, client, peekable, rejection)

    async def _read_connect(self, peekable: PeekableReader) -> Opened:
        head, end = await whole_head(peekable, self._limits)
        peekable.take(end)
        return decide_tunnel(head, self._policy, self._asks)

    async def _peek(self, opened: Opened, client: str, peekable: PeekableReader, rejection: Rejection) -> Tunnel | None:
        try:
            carries = await judged(peekable, partial(what_it_carries, host=opened.host), self._limits)
        except (RawTunnelError, WrongNameError) as fault:
            await rejection.refuse(fault, _record(client, opened.host, opened.port, opened.decision.rule))
            return None
        # A reload does not review a tunnel that is still being opened.
        decision = opened.under(self._policy())
        return Tunnel(client=client, carries=carries, host=opened.host, port=opened.port, decision=decision)


def _record(client: str, host: str, port: int, rule: str | None) -> AuditRecord:
    return AuditRecord(event=Event.CONNECT, method="CONNECT", client=client, host=host, port=port, rule=rule)


def is_own(writer: asyncio.StreamWriter) -> bool:
    """Return whether the client connected over loopback, or from the address that it connected to.

    Another machine cannot imitate either: the kernel drops such packets, and responses to them would not leave.
    """
    peer, here = (writer.get_extra_info(name) for name in ("peername", "sockname"))
    return bool(peer and here) and (peer[0] == here[0] or ip_address(peer[0]).is_loopback)
