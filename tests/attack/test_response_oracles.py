"""What h11, Node or Go read differently in a response from what the lane reads is refused."""

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

# What a damaged response gets in some place: delimiters, digits, and what parsers take for space.
BYTES = (b"", b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x0b", b"\0", b":", b";", b",", b"0", b"2", b"f", b"x", b"\xff")


class Ended:
    """A stream whose data has all arrived."""

    is_reset = False

    def __init__(self, data: bytes) -> None:
        self.buffer = BodyBuffer()
        self.buffer += data

    async def more(self) -> bool:
        """There is no more."""
        return False


async def read_by_lane(data: bytes) -> Verdict:
    """Return the status and the body that the lane forwards, None if it refuses the response."""
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
    """Return what another program reads differently from the lane, and how many responses each reads like it."""
    different: list[tuple[bytes, Verdict, list[Verdict]]] = []
    verdicts, agreed = recorded(), [0, 0, 0]
    for data in cases():
        lane = await read_by_lane(data)
        others = [read_by_h11(data), *verdicts[name_of(data)]]
        agreed = [count + (lane is not None and other == lane) for count, other in zip(agreed, others, strict=True)]
        if lane is not None and any(other is not None and other != lane for other in others):
            different.append((data, lane, others))
    return different, agreed


def test_what_another_program_reads_differently_is_refused() -> None:
    different, agreed = asyncio.run(compared())
    assert different == []
    assert min(agreed) > 100


@cache
def known() -> list[bytes]:
    return cases()


PIECES = st.sampled_from(BYTES) | st.binary(min_size=1, max_size=1)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A response of the list, or one of random lines and bodies, with a few bytes inserted, removed or replaced."""
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
    """Return what another program reads in a response."""
    if request.param == "h11":
        yield read_by_h11
        return
    with Oracle(request.param) as oracle:
        yield oracle.read


@given(responses=MANY)
def test_what_another_program_reads_differently_in_a_random_response_is_refused(
    read: Callable[[bytes], Verdict], responses: list[bytes]
) -> None:
    assert asyncio.run(misread(responses, read)) == []
