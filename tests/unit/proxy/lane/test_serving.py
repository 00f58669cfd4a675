import asyncio
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import override

import pytest

from agent_sandbox.proxy.exchange.exchange import BodyLimit, Exchange, Meter
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.lane import body
from agent_sandbox.proxy.lane import serving as subject
from agent_sandbox.proxy.lane.relay import Relay
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached
from agent_sandbox.proxy.wire.http1_head import ANOTHER_PROXY
from lane_stage import GET, OK, LaneStage, ReturnsNothing
from layer_harness import Deny, LetThrough, Wait, With

type Stage = Callable[..., LaneStage]

POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n"
DENIED = b"HTTP/1.1 403 Forbidden\r\nx-agent-sandbox: blocked\r\n"


class Hold(LetThrough):
    """Needs the body of each request, and allows the word `hello`."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Hold it."""
        exchange.held, exchange.body_limit = True, BodyLimit(size=8, reason="too long")

    @hook
    def request(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Decide it."""
        assert exchange.held
        if exchange.body == b"hello":
            super().requestheaders(exchange, tunnel)
        else:
            exchange.deny(exchange.denial("no"))


async def test_answers_a_denial_reads_the_rest_of_the_body_and_keeps_the_connection(stage: Stage) -> None:
    async with stage(Deny()) as on:
        on.send(POST + b"\r\n")
        first = await on.get(b"}\n")
        assert first.startswith(DENIED)
        on.send(b"hello" + GET)
        assert (await on.get(b"}\n")).startswith(DENIED)
        assert on.notes.ended == [("response", 403, ""), ("response", 403, "")]
        assert on.asked == []


@pytest.mark.parametrize("request_", [GET.replace(b"1.1\r", b"1.0\r"), GET[:-2] + b"Connection: close\r\n\r\n"])
async def test_closes_the_connection_as_the_client_asks(stage: Stage, request_: bytes) -> None:
    async with stage(Deny()) as on:
        on.send(request_)
        assert (await on.get()).startswith(DENIED)


def closing(message: bytes) -> bytes:
    return message.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (POST + b"\r\n", b"HTTP/1.1 200 OK\r\n\r\nok"),
        (POST + b"\r\n", closing(OK)),
        (closing(POST + b"\r\n"), OK),
        (POST.replace(b"1.1\r", b"1.0\r") + b"\r\n", OK),
    ],
)
@pytest.mark.parametrize("rest", [b"llo" + GET, b"", None])
async def test_the_last_response_ends_before_its_request(
    stage: Stage, asked: bytes, answer: bytes, rest: bytes | None
) -> None:
    """The client waits for the end, then sends the rest, resets, or leaves."""
    async with stage() as on:
        on.send(asked + b"he")
        reader, writer = await on.server()
        await on.get(b"he", reader=reader)
        writer.write(answer)
        writer.close()
        assert await on.get() == answer
        assert not on.task.done()
        if rest is None:
            on.writer.transport.abort()
        else:
            on.send(rest)
            on.writer.write_eof()
        await on.over()
        assert on.notes.ended == [("response", 200, "")]
        assert [exchange.sent.count for exchange in on.notes.exchanges] == [2]
        assert (on.dialled.empty(), on.notes.said, on.lines) == (True, [], [])


async def test_closes_the_connection_if_a_denied_body_turns_malformed(stage: Stage) -> None:
    async with stage(Deny()) as on:
        on.send(POST.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"\r\nno chunk\r\n")
        assert (await on.get()).startswith(DENIED)
        on.writer.close()
        await on.over()
        assert on.notes.said == ["malformed body: a malformed chunk size line"]


async def test_closes_when_a_client_leaves_during_a_denied_body(stage: Stage) -> None:
    async with stage(Deny()) as on:
        on.send(POST + b"\r\nhel")
        on.writer.write_eof()
        assert (await on.get()).startswith(DENIED)
        assert on.notes.said == []


async def test_forwards_nothing_without_a_decision(stage: Stage) -> None:
    class Undecided(LetThrough):
        @hook
        @override
        def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
            """Forget to decide."""

    async with stage(Undecided()) as on:
        on.send(GET)
        assert await on.get(b"\r\n\r\n") == DENIED + b"content-length: 0\r\n\r\n"
        assert on.asked == []


async def test_closes_the_connection_if_the_record_fails(stage: Stage) -> None:
    class NoRecord(Deny):
        @hook
        def response(self, _: Exchange, __: Tunnel) -> None:
            """Fall over."""
            raise ValueError

    async with stage(NoRecord()) as on:
        on.send(GET)
        assert await on.get() in (b"", b"reset")
        assert [line.reason for line in on.lines] == ["error in hook response"]


async def test_decides_on_a_held_body_and_then_forwards_it(stage: Stage) -> None:
    async with stage(Hold()) as on:
        on.send(POST + b"Expect: 100-continue\r\n\r\n")
        assert await on.get(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert on.asked == []
        on.send(b"hello")
        reader, writer = await on.server()
        assert await on.get(b"hello", reader=reader) == POST + b"\r\nhello"
        writer.write(OK)
        assert await on.get(b"ok") == OK
        assert on.notes.exchanges[0].sent.count == 5


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"Content-Length: 5\r\n\r\nhullo", 403),
        (b"Transfer-Encoding: chunked\r\n\r\nxx\r\n", 400),
        (b"Content-Length: 9\r\n\r\nhello, yo", 413),
        (b"Content-Length: 5\r\n\r\nhell", 408),
    ],
)
async def test_denies_a_held_body_that_is_denied_malformed_too_large_or_late(
    stage: Stage, body: bytes, status: int
) -> None:
    async with stage(Hold(), limits=Limits(body_seconds=0.1)) as on:
        on.send(b"POST /x HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n" + body)
        assert (await on.get(b"\r\n\r\n")).startswith(b"HTTP/1.1 %d " % status)
        assert on.asked == []
        assert not on.notes.exchanges[0].held


async def test_sends_no_answer_to_a_client_that_leaves_during_a_held_body(stage: Stage) -> None:
    async with stage(Hold()) as on:
        on.send(POST + b"\r\nhel")
        on.writer.write_eof()
        assert await on.get() == b""
        assert on.notes.ended == [("error", None, "Client disconnected.")]


async def test_a_request_waits_for_a_person_and_is_decided_again(stage: Stage) -> None:
    async with stage(wait := Wait()) as on:
        on.send(GET)
        await asyncio.sleep(0.05)
        exchange = on.session._serving.exchange
        assert exchange
        assert exchange.waiting
        assert exchange.waiting.resume
        again = exchange.waiting.resume
        exchange.waiting.end("")
        again()
        _, writer = await on.server()
        writer.write(OK)
        assert await on.get(b"ok") == OK
        assert wait.left == []


async def test_withdraws_the_question_if_the_client_leaves(stage: Stage) -> None:
    async with stage(wait := Wait()) as on:
        on.send(GET)
        await asyncio.sleep(0.05)
        on.writer.close()
        await on.over()
        assert len(wait.left) == 1
        assert on.asked == []


class Left(LetThrough):
    """Finds that the client has already left."""

    stage: LaneStage

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Find it."""
        self.stage.session._client.ended = True
        super().requestheaders(exchange, tunnel)


class LeftWaiting(Left):
    """Makes the request of such a client wait."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Make it wait."""
        super().requestheaders(exchange, tunnel)
        exchange.waiting, exchange.forwarded = Waiting(leave=lambda: None), None


class LeftHeld(Left):
    """Needs the body of such a client's request."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Hold it."""
        super().requestheaders(exchange, tunnel)
        exchange.held, exchange.forwarded = True, None


@pytest.mark.parametrize("addon", [Left, LeftWaiting, LeftHeld])
async def test_does_not_forward_a_request_whose_client_left_during_the_decision(
    stage: Stage, addon: type[Left]
) -> None:
    async with stage(left := addon()) as on:
        left.stage = on
        on.send(POST + b"\r\n")
        await on.over()
        assert on.asked == []
        assert on.notes.ended == [("error", None, "Client disconnected.")]


@pytest.mark.parametrize("begun", [False, True])
async def test_a_body_over_the_limit_is_a_413_or_cuts_the_response(stage: Stage, *, begun: bool) -> None:
    async with stage(With(sent=Meter(limit=4))) as on:
        on.send(POST + b"\r\n")
        reader, writer = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        if begun:
            writer.write(OK[:-1])
            await on.get(b"o")
        on.send(b"hello")
        answer = await on.get(b"" if begun else b"\r\n\r\n")
        assert not answer.endswith(b"ok") if begun else answer.startswith(b"HTTP/1.1 413 ")
        assert await on.get(reader=reader) in (b"", b"reset")


@pytest.mark.parametrize("addon", [Wait, LetThrough])
async def test_does_not_forward_a_request_whose_client_left_while_connecting(stage: Stage, addon: type[object]) -> None:
    async with stage(addon()) as on:
        on.reached.clear()
        on.send(GET)
        on.writer.write_eof()
        assert await on.get() == b""
        assert on.dialled.empty()
        assert on.notes.ended == [("error", None, "Client disconnected.")]


async def test_a_server_that_cannot_be_reached_is_a_502(stage: Stage) -> None:
    async with stage() as on:
        on.refusal = DialError(NotReached("a.test does not resolve"))
        on.send(GET)
        answer = await on.get(b"}\n")
        assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\nx-agent-sandbox: failed\r\n")
        assert b"a.test does not resolve" in answer
        assert on.notes.ended == [("response", 502, "")]


async def test_an_idle_connection_that_the_server_closed_is_replaced_once(stage: Stage) -> None:
    async with stage() as on:
        on.send(GET)
        reader, writer = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        writer.write(OK)
        await on.get(b"ok")
        on.send(GET)
        await on.get(b"\r\n\r\n", reader=reader)
        writer.close()
        reader, again = await on.server()
        assert await on.get(b"\r\n\r\n", reader=reader) == GET
        again.close()
        assert (await on.get(b"}\n")).startswith(b"HTTP/1.1 502 ")
        assert on.dialled.empty()


async def test_does_not_share_connections_that_may_be_authenticated(stage: Stage) -> None:
    own = GET[:-2] + b"Authorization: Negotiate YII=\r\n\r\n"
    async with stage() as on:
        await on.answered(GET, OK)
        assert len(on.pool) == 1
        assert (await on.answered(own, OK))[0] == own
        await asyncio.sleep(0.01)
        assert (len(on.asked), len(on.pool)) == (2, 1)
        on.send(GET)
        assert await on.get(b"\r\n\r\n", reader=on.servers[1][0]) == GET


async def test_does_not_share_a_connection_whose_server_authenticates_it(stage: Stage) -> None:
    async with stage() as on:
        await on.answered(GET, OK.replace(b"OK\r\n", b"OK\r\nWWW-Authenticate: Negotiate YII=\r\n"))
        assert len(on.pool) == 0


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"\r\nhello",
        POST.replace(b"5", b"0") + b"\r\n",
        GET.replace(b"GET", b"DELETE"),
        GET.replace(b"GET", b"get"),
        GET[:-2] + b"Content-Length: 5\r\n\r\nhello",
        GET[:-2] + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
async def test_repeats_no_request_with_another_method_or_a_body(stage: Stage, request_: bytes) -> None:
    async with stage() as on:
        on.send(GET)
        reader, writer = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        writer.write(OK)
        await on.get(b"ok")
        on.send(request_)
        await on.get(request_, reader=reader)
        writer.close()
        assert (await on.get(b"\r\n\r\n")).startswith(b"HTTP/1.1 502 ")
        assert on.dialled.empty()


async def test_a_malformed_target_is_refused(stage: Stage) -> None:
    async with stage() as on:
        on.send(GET.replace(b"/x", b"http://a.test/x"))
        assert (await on.get()).startswith(b"HTTP/1.1 400 ")
        assert on.notes.said == [ANOTHER_PROXY.format("a full URL")]


async def test_an_exception_closes_the_connection_and_leaves_a_record(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall(*_: object) -> None:
        raise LookupError("x")

    async with stage() as on:
        monkeypatch.setattr(Relay, "run", fall)
        on.send(GET)
        assert await on.get() in (b"", b"reset")
        assert on.notes.ended == [("error", None, subject.STOPPED)]
        assert [line.reason for line in on.lines] == ["error in the protocol engine: x"]


@pytest.mark.parametrize(("head", "broken"), [(b"Transfer-Encoding: chunked", b"zz\r\n"), (b"X-Endless: yes", b"")])
async def test_a_truncated_response_does_not_look_complete_to_the_client(
    stage: Stage, head: bytes, broken: bytes
) -> None:
    async with stage() as on:
        on.send(GET)
        reader, writer = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        await on.get(b"\r\n\r\n")
        if broken:
            writer.write(broken)
        else:
            upstream = on.session._serving.upstream
            assert upstream
            upstream.stream.connection_lost(ConnectionResetError())
        assert await on.get() in (b"", b"reset")
        assert on.notes.ended[0][:2] == ("error", 200)


async def test_a_response_that_no_hook_returns_is_not_sent(stage: Stage) -> None:
    async with stage(ReturnsNothing()) as on:
        assert (await on.answered(GET, OK, until=b""))[1] in (b"", b"reset")
        assert on.notes.ended == [("error", 200, "Connection killed.")]


async def test_a_websocket_ends_with_its_client(stage: Stage) -> None:
    async with stage(With(websocket=True)) as on:
        await on.answered(GET, b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n", until=b"\r\n\r\n")
        on.writer.close()
        await on.over()
        assert [how for how, *_ in on.notes.ended] == ["response", "websocket"]


async def test_a_websocket_ends_with_its_server(stage: Stage) -> None:
    async with stage() as on:
        switched = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n"
        assert (await on.answered(GET, switched, until=b""))[1] == switched
        assert [how for how, *_ in on.notes.ended] == ["response", "websocket"]


@pytest.mark.parametrize("addon", [LetThrough, Deny, Hold])
async def test_counts_the_work_of_reading_a_body_for_fair_scheduling(
    stage: Stage, addon: type[LetThrough | Deny], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def wait(took: float) -> float:
        waited.append(took)
        return 0.001

    async with stage(addon()) as on:
        monkeypatch.setattr(body, "time", SimpleNamespace(monotonic=count().__next__))
        monkeypatch.setattr(on.engine.turns, "wait", wait)
        on.send(POST + b"\r\nhello")
        if addon is Deny:
            assert (await on.get(b"\r\n\r\n")).startswith(DENIED)
            on.send(GET)
            await on.get(b"\r\n\r\n")
        else:
            _, writer = await on.server()
            writer.write(OK)
            assert await on.get(b"ok") == OK
        assert max(waited) >= 1
