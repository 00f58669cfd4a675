"""A connection to a server: dialled and checked, with TLS that is verified for the host of the tunnel."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from msgspec import Struct
from OpenSSL import SSL

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.connection.byte_stream import ByteStream, do_nothing
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.steps import Steps
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.tls.contexts import HTTP1, TlsStart
from agent_sandbox.proxy.tls.failure import CLOSED, LATE, OTHER_PROTOCOL, why_failed
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.upstream.pool import Server, ServerPool
from agent_sandbox.proxy.upstream.proxy_connect import Streams

# Names, kinds and sources of secrets, and what echoes of their values look like.
type Secrets = tuple[tuple[tuple[str, str, str], ...], Echoes]

ELSEWHERE = NotReached("the proxy connects only to the destination that was decided")
REPLACED = NotReached("the policy was reloaded while the proxy connected")
NO_TLS_OBJECT = NotReached("an error in the proxy prevented TLS with the server")


class OtherProtocolError(DialError):
    """The TLS handshake failed, perhaps because the server speaks none of the offered protocols.

    Not all servers say so: some send another alert, close the connection, or choose HTTP/2 nevertheless.
    """


class Upstream(Struct):
    """One server connection. `secrets` are those that were sent on it, None before the first request.

    `policy` was in force when it was dialled at the time `opened`. `is_bound`: only one client may use it.
    """

    stream: ByteStream
    server: Server
    policy: Policy
    opened: float
    secrets: Secrets | None = None
    is_bound: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived since the last response."""
        return self.stream.is_quiet

    def fits(self, exchange: Exchange) -> bool:
        """Return whether the request may be sent here: to this server, with the same secrets as before."""
        head = exchange.forwarded
        same = head is not None and (head.host, head.port) == (self.server.host, self.server.port)
        return same and self.secrets in (None, secrets_of(exchange)) and self.is_quiet

    def rest(self, on_activity: Callable[[], None]) -> None:
        """Call `on_activity` when data arrives, or the connection ends."""
        self.stream.on_data = self.stream.on_end = on_activity
        self.stream.resume()

    def drop(self) -> None:
        """Close it."""
        self.stream.drop()


def secrets_of(exchange: Exchange) -> Secrets:
    """Return which secrets are sent with an allowed request, as a value to compare."""
    uses = tuple((use.secret, use.kind, use.source) for use in exchange.secrets)
    return uses, exchange.echoes


def pool_of(engine: Engine) -> ServerPool[Upstream]:
    """Return the idle connections of all clients."""
    if not engine.pools:
        engine.pools.append(ServerPool(engine.limits))
    return engine.pools[0]


def from_pool(exchange: Exchange, tunnel: Tunnel, engine: Engine, on_data: Callable[[], None]) -> Upstream | None:
    """Return an idle connection to where an allowed request goes, if there is one. Raises `DialError`."""
    server = _server(exchange, tunnel)
    upstream = pool_of(engine).take(server, engine.policy(), secrets_of(exchange))
    if upstream is not None:
        upstream.stream.on_data, upstream.stream.on_end = on_data, do_nothing
    return upstream


def to_pool(upstream: Upstream, engine: Engine, seconds: float) -> None:
    """Let other exchanges use the connection, for at most so many seconds, if the policy is still the same."""
    if upstream.policy is not engine.policy():
        upstream.drop()
        return
    pool_of(engine).give(
        upstream,
        upstream.server,
        policy=upstream.policy,
        secrets=upstream.secrets,
        opened=upstream.opened,
        seconds=seconds,
    )


async def reach(
    exchange: Exchange, tunnel: Tunnel, engine: Engine, steps: Steps, on_data: Callable[[], None]
) -> Upstream:
    """Connect to where an allowed request goes. Raises `DialError`."""
    server, policy = _server(exchange, tunnel), engine.policy()
    reader, writer = await _dial(exchange, server, engine)
    with _aborted_on_error(writer):
        stream = ByteStream(writer, on_data=on_data, crowded=lambda: engine.crowded > 1)
        stream.take_over(reader)
        if server.tls:
            await _secure(stream, engine, steps)
    return Upstream(stream, server, policy, time.monotonic())


def _server(exchange: Exchange, tunnel: Tunnel) -> Server:
    """Return the server of an allowed request. Raises `DialError` if the tunnel leads elsewhere, or nowhere."""
    head = exchange.forwarded
    inside = tunnel.carries is Carries.PROXY or (head and (head.host, head.port) == (tunnel.host, tunnel.port))
    if head is None or tunnel.refused is not None or not inside:
        raise DialError(ELSEWHERE)
    return Server(tunnel.carries is Carries.TLS, head.host, head.port)


async def _dial(exchange: Exchange, server: Server, engine: Engine) -> Streams:
    """Connect, unless a policy loaded in the meantime denies it."""
    before = engine.policy()
    streams = await engine.dialler.dial(server.host, server.port)
    revision = PolicyTransition(old=before, new=engine.policy()).granting(exchange.grants)
    with _aborted_on_error(streams[1]):
        if before is not engine.policy() and not revision.decide_connect(server.host, server.port).allowed:
            raise DialError(REPLACED)
    return streams


async def _secure(stream: ByteStream, engine: Engine, steps: Steps) -> None:
    start = TlsStart()
    if not steps.run("tls_start_server", start) or start.connection is None:
        raise DialError(NO_TLS_OBJECT)
    try:
        async with asyncio.timeout(engine.limits.hello_seconds):
            await stream.handshake(start.connection)
    except TimeoutError:
        raise DialError(NotReached(LATE)) from None
    except SSL.Error as error:
        raise OtherProtocolError(NotReached(why_failed(error, start.connection))) from error
    except ConnectionError:
        raise OtherProtocolError(NotReached(CLOSED)) from None
    if stream.alpn not in (b"", HTTP1):
        raise OtherProtocolError(NotReached(OTHER_PROTOCOL))


@contextlib.contextmanager
def _aborted_on_error(writer: asyncio.StreamWriter) -> Iterator[None]:
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            writer.transport.abort()
