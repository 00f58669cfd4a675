from types import SimpleNamespace
from typing import Any, cast

import h11
import pytest

from agent_sandbox.proxy.lane.body import Body, chunk, head_bytes, is_chunked, request_body, response_body
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_head import Body as Size
from agent_sandbox.proxy.wire.http1_head import BodyEnd
from sleeps import recorded_sleeps


class Stream:
    """Yields the pieces one after the other."""

    def __init__(self, *pieces: bytes, is_reset: bool = False) -> None:
        self.buffer = BodyBuffer()
        self.pieces = [*pieces]
        self.is_reset = is_reset

    async def more(self) -> bool:
        """Receive the next piece."""
        if not self.pieces:
            return False
        self.buffer += self.pieces.pop(0)
        return True


async def whole(body: Body) -> bytes:
    data = b""
    while piece := await body.read():
        data += piece
    return data


async def test_discarding_a_body_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = recorded_sleeps(monkeypatch)
    pauses = iter((0.0, 0.5))
    turns = cast("FairScheduler", SimpleNamespace(wait=lambda _took: next(pauses)))
    body = request_body(cast("Any", Stream(b"ab", b"c", b"GET")), 3, line_bytes=10)
    await body.discard(turns)
    assert (body.is_done, slept) == (True, [0.5])


@pytest.mark.parametrize(
    ("size", "pieces", "left"),
    [
        (0, [b"GET"], b""),
        (5, [b"he", b"lloGET"], b"GET"),
        (BodyEnd.CHUNKED, [b"2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\nGET"], b"GET"),
    ],
)
@pytest.mark.parametrize("side", ["request", "response"])
async def test_reads_a_body_up_to_the_end_of_its_framing(
    side: str, size: Size, pieces: list[bytes], left: bytes
) -> None:
    stream: Any = Stream(*pieces)
    body = request_body(stream, size, line_bytes=20) if side == "request" else response_body(stream, size)
    assert body.is_empty is (size == 0)
    assert await whole(body) == (b"hello" if size else b"")
    assert (body.is_done, bytes(stream.buffer), await body.read()) == (True, left, b"")


async def test_reads_a_body_up_to_the_end_of_the_connection() -> None:
    body = response_body(Stream(b"he", b"llo"), BodyEnd.CLOSE)  # type: ignore[arg-type] # as much of one as it needs
    assert (await whole(body), body.is_done) == (b"hello", True)


@pytest.mark.parametrize(
    ("size", "is_reset", "problem"),
    [
        (5, False, "peer closed connection without sending complete message body"),
        (5, True, "the connection was reset"),
        (BodyEnd.CLOSE, True, "the connection was reset"),
        (BodyEnd.CHUNKED, False, "peer closed connection without sending complete message body"),
    ],
)
async def test_a_truncated_body_is_an_error(size: Size, problem: str, *, is_reset: bool) -> None:
    body = response_body(Stream(b"2", is_reset=is_reset), size)  # type: ignore[arg-type] # as above
    with pytest.raises(h11.RemoteProtocolError, match=problem):
        await whole(body)
    assert (body.was_broken, body.is_done) == (True, False)


def test_take_distinguishes_no_data_yet_from_the_end() -> None:
    stream: Any = Stream()
    body = response_body(stream, 2)
    assert body.take() is None
    stream.buffer += b"ok"
    assert [body.take(), body.take()] == [b"ok", b""]


def test_writes_heads_and_chunks() -> None:
    assert head_bytes(b"GET / HTTP/1.1", ((b"Host", b"a.test"),)) == b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
    assert chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
    assert is_chunked(((b"Transfer-Encoding", b"Chunked"),))
    assert not is_chunked(())
