"""The lane rejects responses that h11, Node or Go read differently."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, cast

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.lane.body import response_body
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_head import SWITCHING, BadHeadError
from agent_sandbox.proxy.wire.response_start import ResponseStart
from response_oracles import BODIES, INSTALLED, LINES, STARTS, Oracle, Verdict, cases, name_of, read_by_h11, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_sandbox.proxy.connection.byte_stream import ByteStream

# Bytes inserted into a damaged response: delimiters, digits, and what parsers treat as space.
BYTES = (b"", b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x0b", b"\0", b":", b";", b",", b"0", b"2", b"f", b"x", b"\xff")


class Ended:
    """A stream whose data has all arrived."""

    is_reset = False

    def __init__(self, data: bytes) -> None:
        self.buffer = BodyBuffer()
        self.buffer += data

    async def more(self) -> bool:
        """Report that no more data comes."""
        return False


async def read_by_lane(data: bytes) -> Verdict:
    """Return the status and the body that the lane forwards, None if it rejects the response."""
    stream = Ended(data)
    try:
        head = ResponseStart().read(stream.buffer)
        if head is None or head.status == SWITCHING:
            return None
        body, read = response_body(cast("ByteStream", stream), head.body("GET")), b""
        while piece := await body.read():
            read += piece
    except (BadHeadError, h11.ProtocolError):
        return None
    return head.status, read


async def compared() -> tuple[list[tuple[bytes, Verdict, list[Verdict]]], list[int]]:
    """Return the responses that another program reads differently, and how many each reads the same."""
    different: list[tuple[bytes, Verdict, list[Verdict]]] = []
    verdicts, agreed = recorded(), [0, 0, 0]
    for data in cases():
        lane = await read_by_lane(data)
        others = [read_by_h11(data), *verdicts[name_of(data)]]
        agreed = [count + (lane is not None and other == lane) for count, other in zip(agreed, others, strict=True)]
        if lane is not None and any(other is not None and other != lane for other in others):
            different.append((data, lane, others))
    return different, agreed


def test_rejects_responses_that_another_program_reads_differently() -> None:
    different, agreed = asyncio.run(compared())
    assert different == []
    assert min(agreed) > 100


@cache
def known() -> list[bytes]:
    return cases()


PIECES = st.sampled_from(BYTES) | st.binary(min_size=1, max_size=1)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A known or random response, with a few bytes inserted, removed or replaced."""
    if draw(st.booleans()):
        data = draw(st.sampled_from(known()))
    else:
        lines = [draw(st.sampled_from(STARTS)), *draw(st.lists(st.sampled_from(LINES[:-1]), max_size=3))]
        data = b"\r\n".join(lines) + b"\r\n\r\n" + b"".join(draw(st.lists(st.sampled_from(BODIES), max_size=2)))
    for _ in range(draw(st.integers(0, 3))):
        at, gone = draw(st.integers(0, len(data))), draw(st.integers(0, 2))
        data = data[:at] + draw(PIECES) + data[at + gone :]
    return data


MANY = st.lists(damaged(), min_size=10, max_size=30)


async def misread(responses: list[bytes], read: Callable[[bytes], Verdict]) -> list[tuple[bytes, Verdict, Verdict]]:
    """Return the responses that the lane accepts and another program reads differently."""
    both = [(data, await read_by_lane(data), read(data)) for data in responses]
    return [(data, lane, other) for data, lane, other in both if lane is not None and other not in (None, lane)]


@pytest.fixture(scope="module", params=["h11", *INSTALLED])
def read(request: pytest.FixtureRequest) -> Iterator[Callable[[bytes], Verdict]]:
    """Return a function that reads a response with another program."""
    if request.param == "h11":
        yield read_by_h11
        return
    with Oracle(request.param) as oracle:
        yield oracle.read


@given(responses=MANY)
def test_rejects_random_responses_that_another_program_reads_differently(
    read: Callable[[bytes], Verdict], responses: list[bytes]
) -> None:
    assert asyncio.run(misread(responses, read)) == []
