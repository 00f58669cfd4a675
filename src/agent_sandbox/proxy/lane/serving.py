"""Serve one request: decide it, then answer it, or forward it and return the response."""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus

import h11
from msgspec.structs import replace

from agent_sandbox.policy import Cause
from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.connection.sharing import REPEATABLE, asks_for_own
from agent_sandbox.proxy.connection.upstream import Upstream, from_pool, reach, to_pool
from agent_sandbox.proxy.exchange.denial import Page
from agent_sandbox.proxy.exchange.engine import LINGER_SECONDS, Engine
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.exchange.steps import Steps
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.lane.body import Body, head_bytes, request_body
from agent_sandbox.proxy.lane.interruptible import AbortedError, ClientLeftError, Interruptible
from agent_sandbox.proxy.lane.relay import BrokenError, KilledError, NoAnswerError, Relay
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.wire.http1_head import RequestHead as Parsed
from agent_sandbox.proxy.wire.http1_head import split_target
from agent_sandbox.proxy.wire.message import RequestHead, closes, has_field

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LEFT = "Client disconnected."
STOPPED = "the proxy failed or was stopped"
PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}


class Serving:
    """Serves the requests of one client connection, one at a time."""

    def __init__(
        self, engine: Engine, tunnel: Tunnel, client: ByteStream, steps: Steps, on_data: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._tunnel = tunnel
        self._client = client
        self._steps = steps
        self._on_data = on_data
        self.phase = Interruptible()
        self.exchange: Exchange | None = None
        self.upstream: Upstream | None = None

    async def serve(self, parsed: Parsed) -> bool:
        """Serve a request. Return whether another one may follow. Raises `BadHeadError`."""
        exchange = self._open(parsed)
        body = request_body(self._client, parsed.body, line_bytes=self._engine.limits.chunk_line_bytes)
        self.exchange = exchange
        is_done = False
        try:
            follows = await self._serve(exchange, body)
            is_done = True
        finally:
            self.exchange = None
            if not is_done:
                self.drop_upstream()
            if not exchange.written:
                self._end(exchange, STOPPED)
        return follows

    def drop_upstream(self, how: Callable[[ByteStream], None] = ByteStream.reset) -> None:
        """End the server connection, if there is one."""
        if self.upstream is not None:
            how(self.upstream.stream)
            self.upstream = None

    def _open(self, parsed: Parsed) -> Exchange:
        target, tunnel = split_target(parsed, self._tunnel), self._tunnel
        head = RequestHead(
            method=parsed.method.encode(),
            target=target.path.encode(),
            version=parsed.version.encode(),
            fields=parsed.fields,
            host=target.host or tunnel.host,
            port=target.port or tunnel.port,
            scheme=b"https" if tunnel.carries is Carries.TLS else b"http",
        )
        return open_exchange(head, tunnel, started=time.monotonic())

    async def _serve(self, exchange: Exchange, body: Body) -> bool:
        relay = Relay(exchange, body, self._client, self._engine, self._steps, self.phase.interrupt)
        try:
            with self.phase:
                answer, buffered = await self._decide(exchange, body)
                if answer is None:
                    await self._forward(exchange, body, relay, buffered)
        except ClientLeftError:
            self.drop_upstream()
            self._end(exchange, LEFT, relay)
            return False
        except (AbortedError, BrokenError, DialError, KilledError) as error:
            self.drop_upstream()
            if relay.is_begun or isinstance(error, KilledError):
                self._cut(exchange, relay, error)
                return False
            answer = _answer_to(exchange, error)
        if answer is not None:
            return await self._answer(exchange, body, answer)
        self.exchange = None  # it is over: a new policy changes nothing about it
        if body.is_done:
            return relay.keeps_client
        return await self._discard_rest(body, stays=relay.keeps_client)

    async def _decide(self, exchange: Exchange, body: Body) -> tuple[Page | None, bytes]:
        """Return the answer if the request is denied, else None and the body if it was buffered."""
        answer = self._steps.decide(exchange)
        if exchange.waiting is not None and exchange.waits:
            await self._wait_for_person(exchange, exchange.waiting)
            answer = self._steps.decide(exchange)
        if answer is None and has_field(exchange.head.fields, b"expect"):
            self._client.write(CONTINUE)
            exchange.head = _without_expect(exchange.head)
            exchange.forwarded = exchange.forwarded and _without_expect(exchange.forwarded)
        if answer is not None or exchange.forwarded is not None:
            return answer, b""
        return await self._decide_by_body(exchange, body)

    async def _wait_for_person(self, exchange: Exchange, waiting: Waiting) -> None:
        woken = asyncio.get_running_loop().create_future()
        waiting.resume = lambda: None if woken.done() else woken.set_result(None)
        try:
            if self._client.ended:
                raise ClientLeftError
            await woken
        finally:
            waiting.resume = None
            if not waiting.over:
                waiting.leave()
                left = replace(exchange.outcome, reason=waiting.why or LEFT, cause=Cause.ASK)
                exchange.outcome = left if self._client.ended else exchange.outcome

    async def _decide_by_body(self, exchange: Exchange, body: Body) -> tuple[Page | None, bytes]:
        """Decide a request once its body has arrived."""
        try:
            data = await self._buffered(exchange, body)
            if isinstance(data, Page):
                return data, b""
            exchange.body = data
            answer = self._steps.decide(exchange, "request")
            if answer is None:
                exchange.sent.count = len(data)
        finally:
            exchange.body, exchange.held = b"", False
        return answer, data

    async def _buffered(self, exchange: Exchange, body: Body) -> bytes | Page:
        """Return the whole body, or the answer if it cannot be read."""
        data = bytearray()
        try:
            async with asyncio.timeout(self._engine.limits.body_seconds):
                while piece := await body.read():
                    data += piece
                    if len(data) > exchange.body_limit.size:
                        return exchange.render(exchange.not_read(exchange.body_limit.reason, status=413))
                    if seconds := self._engine.turns.wait(body.took):
                        await asyncio.sleep(seconds)
        except TimeoutError:
            why = "the request body did not arrive in time"
            return exchange.render(exchange.not_read(why, status=408))
        except h11.ProtocolError as error:
            if self._client.ended:
                raise ClientLeftError from error
            return exchange.render(exchange.not_read(f"malformed body: {error}", status=400))
        return bytes(data)

    async def _forward(self, exchange: Exchange, body: Body, relay: Relay, buffered: bytes) -> None:
        if self._client.ended:
            raise ClientLeftError
        is_own = exchange.forwarded is None or bool(exchange.grants) or asks_for_own(exchange.forwarded.fields)
        self._open_connection(exchange, is_own=is_own)
        if not await self._forward_again(exchange, body, relay, buffered):
            self.upstream = await reach(exchange, self._tunnel, self._engine, self._steps, self._on_data)
            await relay.run(self.upstream, buffered)
        if relay.is_websocket:
            self._steps.run("websocket_end", exchange)
        self._release(relay, is_own=is_own)

    def _release(self, relay: Relay, *, is_own: bool) -> None:
        """Close the server connection, keep it for this client, or let all clients use it."""
        upstream = self.upstream
        if upstream is None or not relay.is_reusable:
            self.drop_upstream(ByteStream.drop)
            return
        upstream.is_bound |= is_own or not relay.is_shareable
        if not upstream.is_bound:
            to_pool(upstream, self._engine, relay.seconds)
            self.upstream = None

    def _open_connection(self, exchange: Exchange, *, is_own: bool) -> None:
        """Keep the client's own server connection if it fits, else take a shared one, if the request may use one."""
        if self.upstream is None or not self.upstream.fits(exchange):
            self.drop_upstream()
            if not is_own:
                self.upstream = from_pool(exchange, self._tunnel, self._engine, self._on_data)

    async def _forward_again(self, exchange: Exchange, body: Body, relay: Relay, buffered: bytes) -> bool:
        """Use the open server connection. Return False if there is none, or it had been closed."""
        upstream, method = self.upstream, exchange.head.method
        if upstream is None:
            return False
        try:
            await relay.run(upstream, buffered)
        except NoAnswerError:
            # The server closed the connection, probably before it read the request.
            if method not in REPEATABLE or buffered or not body.is_empty:
                raise
            self.drop_upstream()
            return False
        return True

    async def _answer(self, exchange: Exchange, body: Body, answer: Page) -> bool:
        """Send a response of our own, and read the rest of the request. Return whether another request may follow."""
        exchange.status = answer.status
        if not self._steps.run("response", exchange):
            self._client.reset()
            return False
        first = head_bytes(b"HTTP/1.1 %d %s" % (answer.status, PHRASES[answer.status]), answer.fields)
        self._client.write(first + answer.body)
        await self._client.drain()
        head = exchange.head
        stays = not closes(head.version.decode(), head.fields) and not closes("HTTP/1.1", answer.fields)
        return await self._discard_rest(body, stays=stays)

    async def _discard_rest(self, body: Body, *, stays: bool) -> bool:
        """Read the rest of a request that has its response. Return whether another request may follow.

        If none may, send the end of the connection first: the client may wait for it before it sends the rest.
        """
        if not stays:
            self._client.finish()
        try:
            if not body.was_broken:
                await body.discard(self._engine.turns)
        except h11.ProtocolError as error:
            if not self._client.ended:
                self._steps.run("malformed", f"malformed body: {error}")
        if body.was_broken:
            await self._client.linger(LINGER_SECONDS)
        else:
            await self._client.drain()
        return stays and not body.was_broken

    def _cut(self, exchange: Exchange, relay: Relay, error: Exception) -> None:
        """End a response in such a way that the client does not take it for complete."""
        self._end(exchange, str(error), relay)
        if relay.is_endless or isinstance(error, KilledError):
            self._client.reset()
        else:
            self._client.cut()

    def _end(self, exchange: Exchange, why: str, relay: Relay | None = None) -> None:
        """Write the record of an exchange that broke off."""
        if relay is not None and relay.is_websocket:
            self._steps.run("websocket_end", exchange)
            return
        exchange.error = why
        self._steps.run("error", exchange)


def _answer_to(exchange: Exchange, error: Exception) -> Page:
    if isinstance(error, AbortedError):
        return exchange.render(error.denial)
    why = error.why if isinstance(error, DialError) else NotReached(str(error))
    return exchange.render(exchange.failure(why))


def _without_expect(head: RequestHead) -> RequestHead:
    return replace(head, fields=tuple(field for field in head.fields if field[0].lower() != b"expect"))
