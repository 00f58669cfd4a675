"""What h11, Node or Go read differently in a response from what the lane reads is refused."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, cast

import h11
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.lane.body import response_body
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_head import SWITCHING, BadHeadError
from agent_sandbox.proxy.wire.response_start import ResponseStart
from response_oracles import Verdict, cases, name_of, read_by_h11, recorded

if TYPE_CHECKING:
    from agent_sandbox.proxy.lane.byte_stream import ByteStream

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
    misread: list[tuple[bytes, Verdict, list[Verdict]]] = []
    verdicts, agreed = recorded(), [0, 0, 0]
    for data in cases():
        lane = await read_by_lane(data)
        others = [read_by_h11(data), *verdicts[name_of(data)]]
        agreed = [count + (lane is not None and other == lane) for count, other in zip(agreed, others, strict=True)]
        if lane is not None and any(other is not None and other != lane for other in others):
            misread.append((data, lane, others))
    return misread, agreed


def test_what_another_program_reads_differently_is_refused() -> None:
    misread, agreed = asyncio.run(compared())
    assert misread == []
    assert min(agreed) > 100


@cache
def known() -> list[bytes]:
    return cases()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """One of the responses, with a few bytes inserted, removed or replaced."""
    data = draw(st.sampled_from(known()))
    for _ in range(draw(st.integers(1, 3))):
        at, gone = draw(st.integers(0, len(data))), draw(st.integers(0, 2))
        data = data[:at] + draw(st.sampled_from(BYTES)) + data[at + gone :]
    return data


@given(damaged())
def test_what_h11_reads_differently_in_a_damaged_response_is_refused(data: bytes) -> None:
    lane, other = asyncio.run(read_by_lane(data)), read_by_h11(data)
    assert lane is None or other in (None, lane)
