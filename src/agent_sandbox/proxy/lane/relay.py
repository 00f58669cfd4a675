"""Forward one allowed request to its server, and the response to the client, both as they arrive."""

import asyncio
from collections.abc import Callable, Iterator

import h11

from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.connection.sharing import may_be_shared, seconds_to_keep
from agent_sandbox.proxy.connection.upstream import Upstream, secrets_of
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import Exchange, OverBudgetError
from agent_sandbox.proxy.exchange.steps import Steps
from agent_sandbox.proxy.lane.body import LAST_CHUNK, Body, chunk, head_bytes, is_chunked, response_body
from agent_sandbox.proxy.lane.interruptible import AbortedError, ClientLeftError
from agent_sandbox.proxy.lane.websocket import relay_frames
from agent_sandbox.proxy.net.fair_scheduler import Work
from agent_sandbox.proxy.secrets.redactable import safe_reason
from agent_sandbox.proxy.secrets.unpacking import UnpackError
from agent_sandbox.proxy.wire.http1_head import SWITCHING, BadHeadError, BodyEnd, ResponseHead
from agent_sandbox.proxy.wire.message import ResponseHead as Returned
from agent_sandbox.proxy.wire.message import closes, has_field
from agent_sandbox.proxy.wire.response_start import ResponseStart

HALF_A_HEAD = "the server closed the connection before the end of its response head"
PIECE = 65_536
# The client gets what there is after so many turns: the next may be far away.
MOST_TURNS = 8
NOT_FORWARDED = "the server's response cannot be forwarded"


class BrokenError(Exception):
    """The response cannot be forwarded. The message says why."""


class NoAnswerError(BrokenError):
    """The server closed the connection before the first byte of a response."""


class KilledError(Exception):
    """No hook returned the response, or one raised: the client gets nothing more."""

    def __init__(self) -> None:
        super().__init__("Connection killed.")


class Relay:
    """Relays one exchange.

    `is_begun`: the head of the response was sent. `is_endless`: only the end of the connection ends the response.
    `is_reusable`: the server connection may carry another request of this client. `is_shareable`: so may requests of
    other clients, within `seconds`. `keeps_client`: the client's connection may carry another request.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - whom it connects
        self,
        exchange: Exchange,
        body: Body,
        client: ByteStream,
        engine: Engine,
        steps: Steps,
        interrupt: Callable[[Exception], None],
    ) -> None:
        self._exchange = exchange
        self._body = body
        self._client = client
        self._engine = engine
        self._turns, self._work = engine.turns, Work()
        self._steps = steps
        self._interrupt = interrupt
        self._is_over = self._is_sent = False
        self._sending: asyncio.Task[None] | None = None
        self.is_begun = self.is_endless = self.is_websocket = self.keeps_client = False
        self.is_reusable = self.is_shareable = False
        self.seconds = 0.0

    async def run(self, upstream: Upstream, buffered: bytes) -> None:
        """Send the request, with its `buffered` body or the body as it arrives, and relay the response."""
        server, head = upstream.stream, self._exchange.forwarded
        if head is None:
            raise BrokenError("the request is not allowed")
        upstream.secrets = upstream.secrets or secrets_of(self._exchange)
        server.reads_little = bool(self._exchange.echoes)
        first = head_bytes(b"%s %s %s" % (head.method, head.target, head.version), head.fields)
        chunked = is_chunked(head.fields)
        if buffered and chunked:
            buffered = chunk(buffered)
        server.write(first + buffered + (LAST_CHUNK if chunked and self._body.is_done else b""))
        self._is_sent = self._body.is_done
        self._sending = None if self._is_sent else asyncio.create_task(self._send(server, chunked=chunked))
        try:
            await self._receive(upstream)
        finally:
            await self._stop_sending()
        self.is_reusable = self.is_reusable and self._is_sent and server.is_usable

    async def _stop_sending(self) -> None:
        """Send nothing more of the request."""
        self._is_over = True
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
            await asyncio.wait({self._sending})

    async def _send(self, server: ByteStream, *, chunked: bool) -> None:
        """Forward the request body as it arrives. An error interrupts the exchange, unless that is over."""
        why: Exception | None = RuntimeError("forwarding the request body was cancelled")
        try:
            why = await self._send_all(server, chunked=chunked)
        except h11.ProtocolError as error:
            why = ClientLeftError() if self._client.ended else self._malformed(f"malformed body: {error}")
        except Exception as error:  # noqa: BLE001 - raised by the exchange instead
            why = error
        finally:
            if why is not None and not self._is_over:
                self._interrupt(why)

    async def _send_all(self, server: ByteStream, *, chunked: bool) -> AbortedError | None:
        exchange = self._exchange
        while piece := await self._body.read():
            if denial := exchange.refuse_data(len(piece)):
                return AbortedError(denial)
            data = bytes(exchange.sent(piece))
            server.write(chunk(data) if chunked else data)
            await self._be_fair(self._body.took)
            try:
                await server.drain()
            except ConnectionError:
                # The server no longer reads, but may have answered. If the client's connection closed while the client
                # still sends, the answer might be lost.
                await self._body.discard(self._turns)
                return None
        if chunked:
            server.write(LAST_CHUNK)
        self._is_sent = True
        return None

    def _malformed(self, reason: str) -> AbortedError:
        denial = self._exchange.denial(reason, status=400)
        self._exchange.abort(denial)
        return AbortedError(denial)

    async def _receive(self, upstream: Upstream) -> None:
        exchange, server = self._exchange, upstream.stream
        try:
            head = await self._response_head(server)
            is_early = not (self._body.is_done and server.has_sent_all)
            size = head.body(exchange.method)
        except BadHeadError as problem:
            raise BrokenError(self._safe(f"malformed response from the server: {problem}")) from problem
        returned = self._returned(head)
        # Redaction changes the length of a response, so it is sent in chunks, which HTTP/1.0 does not have.
        chunked = is_chunked(returned.fields)
        version = "HTTP/1.1" if chunked else head.version
        asked = exchange.head
        goes_on = not closes(asked.version.decode(), asked.fields)
        first = head_bytes(b"%s %d %s" % (version.encode(), head.status, returned.reason), returned.fields)
        if head.status == SWITCHING:
            await self._switch(first, server)
            return
        # Searching a plain body costs little for each byte, but a small compressed one may become large.
        server.reads_little = exchange.received.unpacking is not None
        is_ending = chunked or not head.has_body(exchange.method) or has_field(returned.fields, b"content-length")
        self.is_endless = not is_ending
        await self._return(first, response_body(server, size), chunked=chunked, server=server)
        # Judge by the head that the server sent, and by the one that the client got: an HTTP/1.0 server closes its
        # connection, but a client that got the response in chunks, as HTTP/1.1, expects to send another request.
        self.keeps_client = goes_on and not closes(version, returned.fields) and not self.is_endless
        self.is_reusable = goes_on and not closes(head.version, head.fields) and size is not BodyEnd.CLOSE
        self.is_shareable = may_be_shared(exchange, head, has_body=not self._body.is_empty, is_early=is_early)
        self.seconds = seconds_to_keep(head.fields)

    async def _switch(self, first: bytes, server: ByteStream) -> None:
        if not self._steps.run("response", self._exchange):
            raise KilledError
        self.is_websocket = True
        await self._pass(first)
        await relay_frames(self._client, server, self._exchange, self._engine.limits, self._turns)

    async def _response_head(self, server: ByteStream) -> ResponseHead:
        start, is_silent = ResponseStart(), True
        while True:
            if server.buffer:
                is_silent = False
                if head := start.read(server.buffer):
                    return head
            if not await server.more():
                if is_silent:
                    raise NoAnswerError(server.refusal or "server closed connection")
                raise BrokenError(HALF_A_HEAD if server.buffer else "server closed connection")

    def _returned(self, head: ResponseHead) -> Returned:
        """Run the hooks on the head of the response, and return the head that they allow."""
        exchange = self._exchange
        if why := exchange.why_unforwardable(head.status, head.forwarded):
            raise BrokenError(f"{NOT_FORWARDED}: {self._safe(why)}")
        exchange.status = head.status
        exchange.response, exchange.returned = Returned(head.status, head.reason, head.forwarded), None
        if not self._steps.run("responseheaders", exchange) or exchange.returned is None:
            raise KilledError
        return exchange.returned

    async def _return(self, first: bytes, body: Body, *, chunked: bool, server: ByteStream) -> None:
        """Send the response. Data that arrived together is sent together. The record is written before the end."""
        meter, out = self._exchange.received, first
        holds = meter.holds_head
        try:
            while not body.is_done:
                if (piece := body.take()) is None:
                    out = out if holds else await self._pass(out)
                    piece = await body.read()
                await self._be_fair(body.took)
                out = await self._add(out, meter.pieces(piece), chunked=chunked, holds=holds)
            out = await self._add(out, meter.rest(), chunked=chunked, holds=holds)
        except h11.ProtocolError as error:
            why = "the server reset the connection" if server.is_reset else f"HTTP/1 protocol error: {error}"
            raise BrokenError(self._safe(why)) from error
        except UnpackError as why:
            raise BrokenError(f"{NOT_FORWARDED}: {why}") from why
        except OverBudgetError as why:
            raise AbortedError(self._exchange.over_budget(why.over)) from why
        if chunked and self._exchange.method.upper() != "HEAD":
            out += LAST_CHUNK
        # The record says how much was sent, and a client may take long to read the end of the response.
        await self._stop_sending()
        if not self._steps.run("response", self._exchange):
            raise KilledError
        if self._body.is_done:
            await self._pass(out)
        else:  # some clients read nothing before they have sent their whole request
            self._client.write(out)

    async def _add(self, out: bytes, pieces: Iterator[bytes], *, chunked: bool, holds: bool) -> bytes:
        """Append pieces of the body as the client gets them; send `out` once it is large."""
        takes_turns, is_over, turns = self._exchange.received.changes, False, 0
        await self._exchange.received.ready()
        while not is_over:
            turns += 1
            made, is_over = await self._turns.next(pieces, self._work) if takes_turns else (next(pieces, b""), True)
            out += chunk(made) if chunked and made else made
            if not holds and (len(out) > PIECE or turns % MOST_TURNS == 0):
                out = await self._pass(out)
        return out

    async def _pass(self, data: bytes) -> bytes:
        """Send data to the client, and wait until there is room for more."""
        if data:
            self.is_begun = True
            self._client.write(data)
        await self._client.drain()
        return b""

    async def _be_fair(self, took: float) -> None:
        """Pause after work that took so many seconds, so that other connections have their turn."""
        if seconds := self._turns.wait(took):
            await asyncio.sleep(seconds)

    def _safe(self, reason: str) -> str:
        """Return a reason that may quote the server, safe for the client and the audit log."""
        return safe_reason(self._exchange.echoes, reason)
