"""One client connection, served in this process without a clock: what each side got of it.

Nothing here depends on speed. Data on a pair of sockets has arrived when `send` returns, so the loop is stepped until
neither side gets anything more.
"""

import asyncio
import contextlib
import json
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, override

from h2.exceptions import ProtocolError

from agent_sandbox.policy import Policy
from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.ask.grant_book import Scope
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.decide.access_log import AccessLog
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.hooks import hook, hook_table
from agent_sandbox.proxy.front.explicit_proxy import ExplicitProxy
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler
from agent_sandbox.proxy.secrets.redaction import secret_encodings
from agent_sandbox.proxy.tls.authority import load_authority, now_utc
from agent_sandbox.proxy.tls.contexts import ClientTls, ServerTls
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import Dialler
from asking_world import World
from certificates import make_authority
from http2client import Http2Streams
from independent_parsers import read_by_h11
from lane_stage import untrusting
from tls_in_memory import TlsEnd

POLICY = """\
version: 1
domains:
  - host: allowed.test
    rules:
      - {path: {prefix: /a}}
      - {path: {prefix: /echo}}
      - {path: {exact: /small}, max_body: 5}
      - {path: {exact: /graphql}, graphql: {query: [viewer]}}
deny:
  - host: allowed.test
    rules: [{path: {prefix: /a/secret}}]
"""
QUERY = b'{"query":"{viewer{id}}"}'
TUNNEL = b"CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n"
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"
)
ECHOED = "sk-proj-aB3dE5fG7hI9aB3dE5fG7hI9"
ECHOES = secret_encodings(ECHOED, KINDS["bearer"])
QUIET = 12  # steps of the loop in which nothing arrives anywhere: more than any message takes
SECONDS = 30.0
OWN = ("ts", "time", "duration_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to one request: its pieces, in order, and whether the server closes afterwards."""

    pieces: tuple[bytes, ...]
    closes: bool = False
    early: bool = False  # with the head of the request, before its body has arrived


OK = Answer(pieces=(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",))


# What a client sends: bytes, or the frames that it prepares.
type Packet = bytes | Callable[[Http2Streams], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of one client connection."""

    forwarded: bytes  # in the order of arrival, on whichever connections
    by_connection: list[bytes]
    returned: bytes
    closed: bool  # by the proxy, before the client left
    records: list[dict[str, Any]]


class Echoing:
    """As if a secret had been injected into every request below /echo."""

    @hook
    def requestheaders(self, exchange: Exchange, _: Tunnel) -> None:
        """Have its echoes redacted."""
        if exchange.allowed and exchange.path.startswith("/echo"):
            exchange.echoes = ECHOES


class Unhurried(FairScheduler):
    """A scheduler without pauses: on a busy machine, everything takes long."""

    @override
    def wait(self, took: float) -> float:
        return 0.0


class Secured:
    """TLS on both sides of the proxy."""

    def __init__(self, folder: Path) -> None:
        self.hooks = (
            ClientTls(load_authority(folder, now=now_utc()), now=now_utc),
            ServerTls([make_authority(folder, ["allowed.test"])]),
        )
        self._of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._of_server.load_cert_chain(folder / "leaf.pem")
        self._of_server.set_alpn_protocols(["http/1.1"])

    def client(self, *protocols: str) -> TlsEnd:
        """Return a client's end."""
        context = untrusting()
        if protocols:
            context.set_alpn_protocols([*protocols])
        return TlsEnd(context, of_server=False, host="allowed.test")

    def server(self) -> TlsEnd:
        """Return a server's end."""
        return TlsEnd(self._of_server, of_server=True)


class ServerSide(asyncio.Protocol):
    """One server connection. It sends the next answer when another whole request has arrived."""

    def __init__(self, answers: deque[Answer], arrived: bytearray, tls: TlsEnd | None) -> None:
        self.raw = b""
        self._arrived = arrived
        self._tls = tls
        self.pieces: deque[bytes] = deque()
        self._answers = answers
        self._answered = 0
        self.is_lost = False
        self._closes = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        if self._tls is not None:
            data, back = self._tls.take(data)
            self._transport.write(back)
        self.raw += data
        self._arrived += data
        found = read_by_h11(self.raw)
        for number, request in enumerate(found):
            if number < self._answered:
                continue
            answer = self._answers[0] if self._answers else OK
            if request.whole or answer.early:
                self._answered += 1
                if self._answers:
                    self._answers.popleft()
                self.pieces.extend(answer.pieces)
                self._closes |= answer.closes

    @override
    def eof_received(self) -> bool:
        return False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def speak(self) -> bool:
        """Send one more piece; return whether there was anything to do."""
        if self._transport.is_closing():
            return False
        if self.pieces:
            piece = self.pieces.popleft()
            self._transport.write(piece if self._tls is None else self._tls.wrap(piece))
            return True
        if self._closes:
            self._transport.close()
            return True
        return False


def send(client: socket.socket, data: bytes) -> bool:
    """Send it all. Return whether the other side was still there."""
    try:
        client.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


class Connection:
    """A client connection. With `http2`, its client speaks HTTP/2 within TLS."""

    def __init__(
        self, policy: Policy, answers: tuple[Answer, ...], secured: Secured | None = None, *, http2: bool = False
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self.streams = Http2Streams() if http2 else None
        self.arrived = bytearray()
        self.servers: list[ServerSide] = []
        self.returned = b""
        self.may_fail = False
        self.people = World(policy)
        self.is_watched = True  # by a person, who allows everything
        self.most_read: int | None = None  # by the client in one step of the loop
        self.was_paused = False  # because the client did not keep up
        self._secured = secured
        self._tls: TlsEnd | None = None
        self._answers = deque(answers)
        audit_log = AuditLog([self._keep], clock=lambda: 0.0)
        self.enforcer = Enforcer(lambda: policy, clock=lambda: 0.0, questions=self.people.questions)
        hooks = (self.enforcer, Echoing(), Streamer(), AccessLog(audit_log, clock=lambda: 0.0))
        self.engine = Engine(
            hooks=hook_table(*(secured.hooks if secured else ()), *hooks),
            dialler=cast("Dialler", self),
            limits=Limits(),
            record=audit_log.record,
            policy=lambda: policy,
            turns=Unhurried(lambda: 0.0),
        )
        self._front = ExplicitProxy(self.engine, lambda: policy)

    def _keep(self, line: bytes) -> None:
        self.records.append({key: value for key, value in json.loads(line).items() if key not in OWN})

    async def dial(self, _: str, __: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a server, as a dialler does."""
        ours, theirs = socket.socketpair()
        server = ServerSide(self._answers, self.arrived, self._secured.server() if self._secured else None)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: server, theirs)
            self.servers.append(server)
            return await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            if server not in self.servers:
                theirs.close()
            raise

    async def serve(self, packets: tuple[Packet, ...], *, halves: bool = False) -> Seen:
        """Send the packets in order, and the end if wanted; return the result."""
        theirs, ours = socket.socketpair()
        ours.settimeout(0)
        streams = await asyncio.open_connection(sock=theirs)
        extra: dict[str, Any] = streams[1].transport._extra  # type: ignore[attr-defined]
        self._transport = streams[1].transport
        extra["peername"] = ("10.0.0.3", 1)  # mitmproxy parses the name, which a pair of sockets has not
        serving = asyncio.create_task(self._front.serve(*streams))
        closed = await self._say(ours, packets)
        if halves and not closed:
            ours.shutdown(socket.SHUT_WR)
            closed |= await self._settle(ours)
        ours.close()
        done, _ = await asyncio.wait({serving}, timeout=SECONDS)
        assert done, "the connection is still served"
        if not self.may_fail:
            serving.result()
        elif not serving.cancelled():
            serving.exception()
        for pool in self.engine.pools:
            pool.clear()
        await self._until_quiet(None)
        return Seen(
            forwarded=bytes(self.arrived),
            by_connection=[server.raw for server in self.servers],
            returned=self.returned,
            closed=closed,
            records=self.records,
        )

    async def _say(self, client: socket.socket, packets: tuple[Packet, ...]) -> bool:
        """Send the packets; all but the first within TLS, if it is wanted. Return whether the proxy has closed."""
        closed = False
        for packet in packets:
            closed |= not closed and not send(client, self._prepared(packet))
            closed |= await self._settle(client)
            if self._secured is not None and self._tls is None:  # the tunnel is open
                self._tls = self._secured.client(*(["h2"] if self.streams else []))
                closed |= not closed and not send(client, self._tls.take()[1])
                closed |= await self._settle(client)
        return closed

    def _prepared(self, packet: Packet) -> bytes:
        if not isinstance(packet, bytes):
            assert self.streams is not None
            with contextlib.suppress(ProtocolError):  # after an error, the proxy has closed the stream
                packet(self.streams)
            packet = self.streams.h2.data_to_send()
        return packet if self._tls is None else self._tls.wrap(packet)

    async def _settle(self, client: socket.socket) -> bool:
        """Exchange data until no side has any left. Return whether the proxy has closed the connection."""
        closed = await self._until_quiet(client)
        while self._is_answered() or [server for server in self.servers if server.speak()]:
            closed |= await self._until_quiet(client)
        return closed

    def _is_answered(self) -> bool:
        """Have a person allow the requests that wait. Return whether there were any."""
        ids = self.people.ids() if self.is_watched else []
        for number in ids:
            self.people.questions.answer(number, Scope.ONCE, who="a person")
        return bool(ids)

    async def _until_quiet(self, client: socket.socket | None) -> bool:
        closed, quiet, before = False, 0, self._so_far()
        while quiet < QUIET:
            await asyncio.sleep(0)
            closed |= client is not None and self._take(client)
            self.was_paused |= self._transport._protocol_paused  # type: ignore[attr-defined] # asyncio's
            now = self._so_far()
            quiet = quiet + 1 if now == before else 0
            before = now
        return closed

    def _take(self, client: socket.socket) -> bool:
        try:
            while data := client.recv(self.most_read or 65_536):
                self._receive(client, data)
                if self.most_read is not None:
                    return False
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    def _receive(self, client: socket.socket, data: bytes) -> None:
        if self._tls is not None:
            data, back = self._tls.take(data)
            send(client, back)
            if self.streams is not None and data:
                self.streams.take(data)
                send(client, self._tls.wrap(self.streams.h2.data_to_send()))
        self.returned += data

    def _so_far(self) -> tuple[int, ...]:
        return len(self.returned), len(self.records), len(self.servers), len(self.arrived)
