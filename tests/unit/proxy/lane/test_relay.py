import asyncio
import zlib
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import override

import pytest

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import Exchange, OverBudget
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.lane import body
from agent_sandbox.proxy.lane import relay as subject
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.fair_scheduler import Work
from agent_sandbox.proxy.secrets import unpacking
from agent_sandbox.proxy.secrets.redaction import Redactor, secret_encodings
from agent_sandbox.proxy.secrets.unpacking import OpenUnpackings, Unpacking
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.http1_head import Body
from agent_sandbox.proxy.wire.http1_head import ResponseHead as ReadHead
from agent_sandbox.proxy.wire.message import ResponseHead
from lane_stage import GET, OK, SECONDS, LaneStage, until
from layer_harness import LetThrough, With
from packing import PACK

type Stage = Callable[..., LaneStage]

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"


class Secret(LetThrough):
    """Injects a secret, and redacts it."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Let it through with a secret."""
        super().requestheaders(exchange, tunnel)
        exchange.echoes = secret_encodings("hunter22", KINDS["bearer"])

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Redact."""
        super().responseheaders(exchange, tunnel)
        exchange.received.redactor = Redactor(exchange.echoes)
        if exchange.response and b"deflate" in dict(exchange.response.fields).values():
            exchange.received.unpacking = Unpacking(b"deflate")


class Packed(LetThrough):
    """Decompresses each response, with decoders of which none is free."""

    def __init__(self) -> None:
        super().__init__()
        self.beside = OpenUnpackings()
        self.held = [Unpacking(b"br", self.beside) for _ in range(16)]

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Decompress and search."""
        super().responseheaders(exchange, tunnel)
        exchange.received.unpacking = Unpacking(b"br", self.beside)
        exchange.received.redactor = Redactor([b"hunter22"])


BROTLI = PACK[b"br"](b"text")


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_response_waits_for_a_decoder_unless_the_client_leaves(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, leaves: bool
) -> None:
    monkeypatch.setattr(unpacking, "WAIT_SECONDS", 600)
    packed = Packed()
    async with stage(packed) as on:
        on.send(GET)
        _, writer = await on.server()
        writer.write(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BROTLI), BROTLI))
        await until(lambda: bool(packed.beside.waiting))
        if leaves:
            on.writer.close()
            await until(lambda: not packed.beside.waiting)
        else:
            packed.held[0].close()
            assert b"\r\ntext\r\n" in await on.get(b"text\r\n")


@pytest.mark.parametrize(
    ("request_", "answer", "wanted"),
    [
        (GET, OK, OK),
        (GET, b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK, OK),
        (GET, CHUNKED + b"2\r\nok\r\n0\r\nX: y\r\n\r\n", CHUNKED + b"2\r\nok\r\n0\r\n\r\n"),
        (GET.replace(b"GET", b"HEAD"), CHUNKED, CHUNKED),
        (GET, b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (GET, b"HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n"),
    ],
)
async def test_returns_a_response_and_keeps_both_connections(
    stage: Stage, request_: bytes, answer: bytes, wanted: bytes
) -> None:
    async with stage() as on:
        for _ in range(2):
            on.send(request_)
            reader, writer = on.servers[0] if on.servers else await on.server()
            assert await on.get(b"\r\n\r\n", reader=reader) == request_
            writer.write(answer)
            assert await on.reader.readexactly(len(wanted)) == wanted
        assert on.dialled.empty()


@pytest.mark.parametrize(
    "answer", [HEAD + b"\r\nok", OK.replace(b"OK\r", b"OK\r\nConnection: close\r"), OK[:7] + b"0" + OK[8:]]
)
async def test_a_response_that_closes_the_connection_closes_both(stage: Stage, answer: bytes) -> None:
    async with stage() as on:
        assert (await on.answered(GET, answer, until=b""))[1] == answer
        assert on.notes.ended == [("response", 200, "")]


class HoldAll(LetThrough):
    """Reads each body before it is forwarded."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Hold it."""
        exchange.held = True

    @hook
    def request(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Let it through."""
        super().requestheaders(exchange, tunnel)


async def test_sends_a_buffered_body_in_one_chunk(stage: Stage) -> None:
    async with stage(HoldAll()) as on:
        on.send(POST + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n")
        reader, _ = await on.server()
        assert await on.get(b"0\r\n\r\n", reader=reader) == POST + b"5\r\nhello\r\n0\r\n\r\n"


async def test_forwards_a_body_with_a_length_until_it_exceeds_the_limit(stage: Stage) -> None:
    class Limited(LetThrough):
        @hook
        @override
        def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
            """Allow little."""
            super().requestheaders(exchange, tunnel)
            exchange.sent.limit = 5

    post = GET.replace(b"GET", b"POST")[:-2]
    async with stage(Limited()) as on:
        on.send(post + b"Content-Length: 5\r\n\r\nhello")
        reader, writer = await on.server()
        assert await on.get(b"hello", reader=reader) == post + b"Content-Length: 5\r\n\r\nhello"
        writer.write(OK)
        assert await on.get(b"ok") == OK
        on.send(post + b"Content-Length: 6\r\n\r\nhello!")
        assert (await on.get(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")


class Budget(LetThrough):
    """Allows five bytes each way."""

    def __init__(self) -> None:
        self.left = {"upload": 5, "download": 5}

    def spend(self, kind: str, amount: int) -> OverBudget | None:
        """Count it."""
        self.left[kind] -= amount
        return OverBudget(f"no {kind} left", 9) if self.left[kind] < 0 else None

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Let it through with a budget."""
        super().requestheaders(exchange, tunnel)
        exchange.spend = exchange.received.spend = self.spend


async def test_a_request_body_beyond_a_budget_is_a_429(stage: Stage) -> None:
    async with stage(Budget()) as on:
        on.send(POST + b"5\r\nhello\r\n")
        reader, _ = await on.server()
        assert await on.get(b"hello\r\n", reader=reader) == POST + b"5\r\nhello\r\n"
        on.send(b"1\r\n!\r\n")
        got = await on.get(b"}\n")
        assert got.startswith(b"HTTP/1.1 429 ")
        assert b"no upload left" in got
        assert await on.get(reader=reader) in (b"", b"reset")


async def test_a_response_beyond_a_budget_is_a_429(stage: Stage) -> None:
    async with stage(Budget()) as on:
        _, got = await on.answered(GET, HEAD + b"Content-Length: 6\r\n\r\nhello!", until=b"}\n")
        assert got.startswith(b"HTTP/1.1 429 ")
        assert b"no download left" in got


async def test_a_response_that_exceeds_a_budget_later_is_cut_off(stage: Stage) -> None:
    async with stage(Budget()) as on:
        _, got = await on.answered(GET, HEAD + b"Content-Length: 6\r\n\r\nhello", until=b"hello")
        assert got == HEAD + b"Content-Length: 6\r\n\r\nhello"
        on.servers[0][1].write(b"!")
        assert await on.get() in (b"", b"reset")
        assert on.notes.exchanges[-1].outcome.cause == "budget"


async def test_keeps_sending_a_request_during_its_response_and_stops_at_the_end(stage: Stage) -> None:
    async with stage() as on:
        on.send(POST)
        reader, writer = await on.server()
        writer.write(CHUNKED + b"2\r\nok\r\n")
        assert await on.get(b"ok\r\n") == CHUNKED + b"2\r\nok\r\n"
        on.send(b"5\r\nhello\r\n")
        assert await on.get(b"hello\r\n", reader=reader) == POST + b"5\r\nhello\r\n"
        writer.write(b"0\r\n\r\n")
        assert await on.get(b"0\r\n\r\n") == b"0\r\n\r\n"
        assert await on.get(reader=reader) == b""
        on.send(b"5\r\nhello\r\n0\r\n\r\n")
        assert await on.answered(GET, OK) == (GET, OK)
        assert [exchange.sent.count for exchange in on.notes.exchanges] == [5, 0]
        assert on.notes.ended == [("response", 200, "")] * 2


@pytest.mark.parametrize("rest", [b"0\r\n\r\n", b"no chunk\r\n"])
async def test_sends_nothing_more_of_a_request_once_its_response_has_ended(stage: Stage, rest: bytes) -> None:
    async with stage() as on:
        on.send(POST)
        reader, writer = await on.server()
        assert await on.get(b"\r\n\r\n", reader=reader) == POST
        on.reader._transport.pause_reading()  # type: ignore[attr-defined] # the client reads nothing
        writer.write(CHUNKED)
        transport, many = on.session._client._transport, b"%x\r\n%s\r\n" % (20_000, b"x" * 20_000)
        while transport.get_write_buffer_size() < 20_000:
            writer.write(many)
            await asyncio.sleep(0.01)
        writer.write(many * 3 + b"0\r\n\r\n")
        assert await on.get(reader=reader) == b""
        assert on.session._client._is_full
        for _ in range(20):  # more than the sockets hold: all of it is read
            on.send(many)
        on.send(rest)
        async with asyncio.timeout(SECONDS):
            await on.writer.drain()
        assert [exchange.sent.count for exchange in on.notes.exchanges] == [0]
        on.reader._transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(SECONDS):
            while not (await on.reader.read(100_000)).endswith(b"\r\n0\r\n\r\n"):
                pass
        if rest == b"0\r\n\r\n":
            assert await on.answered(GET, OK) == (GET, OK)
        else:
            assert on.notes.said == ["malformed body: a malformed chunk size line"]


@pytest.mark.parametrize("is_first", [False, True])
async def test_returns_the_response_of_a_server_that_stops_reading_the_request(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """The request ends before its response, or afterwards."""

    async def drain(_: object) -> None:
        raise ConnectionResetError

    async with stage() as on:
        on.send(POST)
        _, writer = await on.server()
        writer.write(HEAD + b"Content-Length: 4\r\n\r\nok")
        await on.get(b"ok")
        monkeypatch.setattr(type(on.session._client), "drain", drain)
        for _ in range(2):
            on.send(b"5\r\nhello\r\n")
            await asyncio.sleep(0.02)
        monkeypatch.undo()
        if is_first:
            on.send(b"0\r\n\r\n")
            await asyncio.sleep(0.02)
        writer.write(b"ok")
        assert await on.get(b"ok") == b"ok"
        if not is_first:
            on.send(b"0\r\n\r\n")
        assert await on.answered(GET, OK) == (GET, OK)
        assert [exchange.sent.count for exchange in on.notes.exchanges] == [5, 0]


@pytest.mark.parametrize("leaves", [False, True])
async def test_does_not_take_the_rest_of_an_unread_body_for_a_request(stage: Stage, *, leaves: bool) -> None:
    async with stage() as on:
        on.send(POST.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % (len(GET) + 2)))
        _, writer = await on.server()
        writer.write(OK)
        assert await on.get(b"ok") == OK
        if leaves:
            on.writer.close()
            await on.over()
            assert on.notes.said == []
            return
        on.send(b"x")
        await asyncio.sleep(0.02)
        on.send(b"x" + GET)
        await asyncio.sleep(0.02)
        assert on.dialled.empty()
        assert on.notes.ended == [("response", 200, "")]
        assert await on.answered(GET, OK) == (GET, OK)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", b"server closed connection"),
        (b"HTTP/1.1 200", b"the server closed the connection before the end of its response head"),
        (b"HTTP/1.1 103 Hints\r\n\r\n", b"server closed connection"),
        (b"SSH-2.0\r\n", b"malformed response from the server: it is not HTTP/1"),
        (b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 20", b"before the end of its response head"),
        (HEAD + b"Content-Length: x\r\n\r\n", b"malformed response from the server: the Content-Length"),
        (CHUNKED + b"zz\r\n", b"HTTP/1 protocol error: illegal chunk header"),
    ],
)
async def test_answers_502_to_an_invalid_response(stage: Stage, answer: bytes, why: bytes) -> None:
    async with stage() as on:
        on.send(GET)
        _, writer = await on.server()
        writer.write(answer)
        writer.close()
        got = await on.get(b"}\n")
        assert got.startswith(b"HTTP/1.1 502 ")
        assert why in got


@pytest.mark.parametrize(
    ("hooks", "fields", "wanted"),
    [
        (LetThrough, b"", [False, False]),
        (Secret, b"", [True, False]),
        (Secret, b"Content-Encoding: deflate\r\n", [True, True]),
    ],
    ids=["no secret", "plain body", "compressed body"],
)
async def test_reads_little_at_once_of_a_searched_head_and_of_a_searched_compressed_body(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, hooks: type[LetThrough], fields: bytes, wanted: list[bool]
) -> None:
    seen: list[bool] = []
    response_head, response_body = subject.Relay._response_head, body.response_body

    async def noted_head(relay: subject.Relay, server: ByteStream) -> ReadHead:
        seen.append(server.reads_little)
        return await response_head(relay, server)

    def noted_body(server: ByteStream, size: Body) -> body.Body:
        seen.append(server.reads_little)
        return response_body(server, size)

    monkeypatch.setattr(subject.Relay, "_response_head", noted_head)
    monkeypatch.setattr(subject, "response_body", noted_body)
    async with stage(hooks()) as on:
        content = zlib.compress(b"ok") if fields else b"ok"
        answer = HEAD + fields + b"Content-Length: %d\r\n\r\n" % len(content) + content
        await on.answered(GET, answer)
        on.send(GET)
        reader, writer = on.servers[0]
        await on.get(b"\r\n\r\n", reader=reader)
        writer.write(answer)
        await on.get(b"ok")
    assert seen == wanted * 2


class InChunks(Secret):
    """Redacts the body, so that its length is unknown."""

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Send it in chunks."""
        super().responseheaders(exchange, tunnel)
        exchange.returned = ResponseHead(200, b"OK", ((b"Transfer-Encoding", b"chunked"),))


async def test_sends_a_redacted_http10_response_as_http11(stage: Stage) -> None:
    async with stage(InChunks()) as on:
        answer = b"HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\na hunter22."
        _, got = await on.answered(GET, answer, until=b"0\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"********" in got
        # The client was not told that its connection ends: its next request gets a new server connection.
        _, got = await on.answered(GET, answer, until=b"0\r\n\r\n")
        assert b"********" in got


@pytest.mark.parametrize(
    ("fields", "body", "why"),
    [
        (b"Content-Encoding: compress\r\n", b"", b"cannot be forwarded"),
        (b"X: deflate\r\n", b"no zlib", b"cannot be forwarded"),
        (b"X: deflate\r\n", zlib.compress(b"text")[:-1], b"cannot be forwarded"),
    ],
)
async def test_does_not_forward_a_response_that_cannot_be_searched(
    stage: Stage, fields: bytes, body: bytes, why: bytes
) -> None:
    async with stage(Secret()) as on:
        on.send(GET)
        _, writer = await on.server()
        writer.write(HEAD + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        got = await on.get(b"}\n")
        assert got.startswith(b"HTTP/1.1 502 ")
        assert why in got


LIST = b'{"result": {"tools": [{"name": "a"}, {"name": "b"}]}}'
TYPE = b"Content-Type: application/json\r\n"


class Lists(Streamer):
    """Asks an MCP server for its tools, and shows one of them."""

    @hook
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Let it through."""
        LetThrough().requestheaders(exchange, tunnel)
        exchange.shows_tool = "a".__eq__


async def test_a_list_of_tools_is_sent_when_it_is_complete(stage: Stage) -> None:
    async with stage(Lists()) as on:
        on.send(GET)
        _, writer = await on.server()
        writer.write(HEAD + TYPE + b"Content-Length: %d\r\n\r\n" % len(LIST) + LIST[:9])
        await asyncio.sleep(0.01)
        writer.write(LIST[9:])
        got = await on.get(b"0\r\n\r\n")
        shown = b'{"result": {"tools": [{"name": "a"}]}}'
        assert got == HEAD + TYPE + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(shown), shown)


@pytest.mark.parametrize(
    ("fields", "body", "why"),
    [
        (TYPE, b"oops", b"a body that is not JSON in UTF-8"),
        (TYPE, b" " * (1 << 20) + b" ", b"a message of more than 1024 KiB"),
        (b"", b"ok", b"it is neither JSON nor an event stream"),
    ],
)
async def test_a_list_of_tools_that_cannot_be_read_is_a_502(
    stage: Stage, fields: bytes, body: bytes, why: bytes
) -> None:
    async with stage(Lists()) as on:
        on.send(GET)
        _, writer = await on.server()
        writer.write(HEAD + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        got = await on.get(b"}\n")
        assert got.startswith(b"HTTP/1.1 502 ")
        assert b"its list of tools could not be filtered: " + why in got


async def test_passes_events_one_by_one_until_one_is_unreadable(stage: Stage) -> None:
    async with stage(Lists()) as on:
        on.send(GET)
        _, writer = await on.server()
        writer.write(HEAD + b"Content-Type: text/event-stream\r\n\r\ndata: " + LIST + b"\n\n")
        assert b'data: {"result": {"tools": [{"name": "a"}]}}\n\n' in await on.get(b"\n\n\r\n")
        writer.write(b"data: oops\n\n")
        assert b"oops" not in await on.get(b"")


@pytest.mark.parametrize("ended", ["malformed", "left", "fault"])
async def test_a_truncated_request_body_ends_the_request(
    stage: Stage, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage() as on:
        on.send(POST)
        reader, _ = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        if ended == "malformed":
            on.send(b"no chunk\r\n")
            assert (await on.get(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        elif ended == "left":
            on.session._client.on_end = lambda: None
            on.writer.write_eof()
        else:
            monkeypatch.setattr(subject, "chunk", lambda _: 1 // 0)
            on.send(b"5\r\nhello\r\n")
        assert await on.get(reader=reader) in (b"", b"reset")
        await on.over()
        assert [line.reason for line in on.lines] == (
            ["error in the protocol engine: integer division or modulo by zero"] if ended == "fault" else []
        )


async def test_closes_the_connection_if_a_request_turns_malformed_after_its_response(stage: Stage) -> None:
    async with stage() as on:
        on.send(POST)
        reader, writer = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        writer.write(OK)
        assert await on.get(OK[-4:]) == OK
        on.send(b"no chunk\r\n")
        assert await on.get() in (b"", b"reset")
        on.writer.close()
        await on.over()
        assert on.notes.said == ["malformed body: a malformed chunk size line"]


async def test_a_cancelled_body_does_not_look_complete(stage: Stage) -> None:
    def cancelled(_: bytes) -> bytes:
        raise asyncio.CancelledError

    cancelled.takes = lambda _: True  # type: ignore[attr-defined] # as a meter has
    cancelled.count = 0  # type: ignore[attr-defined] # as above
    async with stage(With(sent=cancelled)) as on:
        on.send(POST + b"5\r\nhello\r\n")
        await on.over()
        assert [line.reason for line in on.lines] == [
            "error in the protocol engine: forwarding the request body was cancelled"
        ]


async def test_holds_no_turn_while_a_slow_client_reads(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    send, sent = subject.Relay._pass, list[int]()

    async with stage(Secret()) as on:

        async def send_slowly(relay: subject.Relay, data: bytes) -> bytes:
            async with asyncio.timeout(SECONDS), on.engine.turns.turn(Work()):
                sent.append(len(data))
            return await send(relay, data)

        monkeypatch.setattr(subject.Relay, "_pass", send_slowly)
        answer = HEAD + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000
        assert (await on.answered(GET, answer, until=b"x" * 300_000))[1] == answer
    assert sum(sent) == len(answer)


async def test_pauses_during_a_response_in_thousands_of_chunks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def wait(took: float) -> float:
        waited.append(took)
        return 0.0

    async with stage() as on:
        monkeypatch.setattr(body, "time", SimpleNamespace(monotonic=count().__next__))
        monkeypatch.setattr(on.engine.turns, "wait", wait)
        answer = CHUNKED + b"2\r\nok\r\n0\r\n\r\n"
        assert (await on.answered(GET, answer, until=b"0\r\n\r\n"))[1] == answer
    assert waited[0] >= 1


@pytest.mark.parametrize("name", ["response", "websocket"])
async def test_a_response_without_a_record_is_not_completed(stage: Stage, name: str) -> None:
    class NoRecord(LetThrough):
        @hook
        def response(self, _: Exchange, __: Tunnel) -> None:
            """Fall over."""
            raise ValueError

    switched = b"HTTP/1.1 101 Switching\r\n\r\n"
    async with stage(NoRecord(), limits=Limits()) as on:
        assert (await on.answered(GET, OK if name == "response" else switched, until=b""))[1] in (b"", b"reset")


async def test_a_request_that_is_not_allowed_is_not_sent() -> None:
    exchange = type("Denied", (), {"forwarded": None})()
    relay = subject.Relay(exchange, None, None, SimpleNamespace(turns=None), None, lambda _: None)  # type: ignore[arg-type] # it needs none
    upstream = type("Open", (), {"stream": None})()
    with pytest.raises(subject.BrokenError, match="the request is not allowed"):
        await relay.run(upstream, b"")
