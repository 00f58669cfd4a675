"""A session of the lane between a client and servers that a test controls, all in one process."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Self, cast, override

from agent_sandbox.policy import Decision, Effect, Policy
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.connection.upstream import pool_of
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.lane.session import LaneSession
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, Dialler
from layer_harness import LetThrough, hooks_of

YES = Decision(effect=Effect.ALLOW, rule="policy.yaml:2", origin=None, reason="yes")
PLAIN = Tunnel(client="10.0.0.3", carries=Carries.HTTP, host="a.test", port=80, decision=YES)
SECURE = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443, decision=YES)
OPEN = Tunnel(client="10.0.0.3", carries=Carries.PROXY)
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECONDS = 30.0

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ReturnsNothing(LetThrough):
    """A hook that drops the response."""

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Return nothing."""


class Notes:
    """Keeps how each exchange ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, int | None, str]] = []
        self.exchanges: list[Exchange] = []
        self.said: list[str] = []

    def _note(self, how: str, exchange: Exchange) -> None:
        exchange.written = True
        self.exchanges.append(exchange)
        self.ended.append((how, exchange.status, exchange.error))

    @hook
    def response(self, exchange: Exchange, _: Tunnel) -> None:
        """Note it."""
        self._note("response", exchange)

    @hook
    def error(self, exchange: Exchange, _: Tunnel) -> None:
        """Note it."""
        self._note("error", exchange)

    @hook
    def websocket_end(self, exchange: Exchange, _: Tunnel) -> None:
        """Note it."""
        self._note("websocket", exchange)

    @hook
    def malformed(self, reason: str, _: Tunnel) -> None:
        """Note it."""
        self.said.append(reason)

    @hook
    def tls_failed_client(self, reason: str, _: Tunnel) -> None:
        """Note it."""
        self.said.append(reason)


async def until(holds: Callable[[], bool]) -> None:
    """Let the event loop run until something holds."""
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0)


async def pair_of_sockets() -> tuple[Pair, Pair]:
    """Return both ends of a connection."""
    one, other = socket.socketpair()
    async with contextlib.AsyncExitStack() as held:
        held.callback(other.close)
        ours = await asyncio.open_connection(sock=one)
        held.callback(ours[1].transport.abort)
        theirs = await asyncio.open_connection(sock=other)
        held.pop_all()  # nothing was cancelled
    return ours, theirs


class LaneStage:
    """A client connection to the lane. `dials` waits for the server connections that come of it."""

    def __init__(self, policy: Policy, *addons: object, tunnel: Tunnel = PLAIN, limits: Limits | None = None) -> None:
        self.notes = Notes()
        self.lines: list[AuditRecord] = []
        self.policy = policy
        self.refusal: DialError | None = None
        self.reached = asyncio.Event()
        self.reached.set()
        self.dialled: asyncio.Queue[Pair] = asyncio.Queue()
        self.servers: list[Pair] = []
        self.asked: list[tuple[str, int]] = []
        self._tunnel = tunnel
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.engine = Engine(
            hooks=hooks_of(*(addons or (LetThrough(),)), self.notes),
            dialler=cast("Dialler", self),
            limits=limits or Limits(),
            record=self.lines.append,
            policy=lambda: self.policy,
        )

    async def dial(self, host: str, port: int) -> Pair:
        """Connect to a server, as a dialler does."""
        await self.reached.wait()
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((host, port))
        ours, theirs = await pair_of_sockets()
        self._writers += [ours[1], theirs[1]]
        await self.dialled.put(theirs)
        return ours

    async def __aenter__(self) -> Self:
        """Connect the client."""
        self.pool = pool_of(self.engine)
        self.session, (self.reader, self.writer) = await self.client()
        self.task = self._tasks[0]
        return self

    async def client(self) -> tuple[LaneSession, Pair]:
        """Connect a client, which may be one of several."""
        (reader, writer), theirs = await pair_of_sockets()
        self._writers += [writer, theirs[1]]
        session = LaneSession(self.engine, self._tunnel, PeekableReader(reader, Place(Held())), writer)
        self._tasks.append(asyncio.create_task(session.handle_client()))
        return session, theirs

    async def __aexit__(self, *_: object) -> None:
        """End everything."""
        self.pool.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def start_tls(self, context: ssl.SSLContext, host: str = "a.test") -> None:
        """Have the client speak TLS."""
        await self.writer.start_tls(context, server_hostname=host)

    def send(self, data: bytes) -> None:
        """Send as the client."""
        self.writer.write(data)

    async def server(self) -> Pair:
        """Return the next server connection."""
        async with asyncio.timeout(SECONDS):
            self.servers.append(await self.dialled.get())
        return self.servers[-1]

    async def get(self, until: bytes = b"", *, reader: asyncio.StreamReader | None = None) -> bytes:
        """Return what the client receives up to `until`, or up to the end."""
        source = reader or self.reader
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionResetError):
                return await (source.readuntil(until) if until else source.read())
        return b"reset"

    async def answered(self, request: bytes, answer: bytes, until: bytes = b"ok") -> tuple[bytes, bytes]:
        """Send a request, have the server answer; return what each of them got."""
        self.send(request)
        reader, writer = await self.server()
        asked = await self.get(b"\r\n\r\n", reader=reader)
        writer.write(answer)
        if not until:
            writer.close()
        return asked, await self.get(until)

    async def over(self) -> None:
        """Wait for the end of the session."""
        async with asyncio.timeout(SECONDS):
            await asyncio.shield(self.task)


def untrusting() -> ssl.SSLContext:
    """Return a context that believes anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
