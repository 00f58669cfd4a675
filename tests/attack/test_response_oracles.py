"""The lane rejects responses that h11, Node or Go read differently."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from typing import cast

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.lane.body import response_body
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_head import SWITCHING, BadHeadError
from agent_sandbox.proxy.wire.response_start import ResponseStart
from response_oracles import (
    BODIES,
    INSTALLED,
    LINES,
    STARTS,
    Case,
    Message,
    Oracle,
    Verdict,
    cases,
    names_of,
    read_by_h11,
    recorded,
)

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


async def read_by_lane(case: Case) -> Verdict:
    """Return what the lane reads, None if it rejects the response. It forwards these fields, or fewer."""
    stream = Ended(case.data)
    try:
        head = ResponseStart().read(stream.buffer)
        if head is None or head.status == SWITCHING:
            return None
        body, read = response_body(cast("ByteStream", stream), head.body(case.method)), b""
        while piece := await body.read():
            read += piece
    except (BadHeadError, h11.ProtocolError):
        return None
    return Message(head.status, names_of(head.fields), read)


async def compared() -> tuple[list[tuple[Case, Verdict, list[Verdict]]], dict[str, list[int]]]:
    """Return the responses that another program reads differently, and how many each reads the same, by method."""
    different: list[tuple[Case, Verdict, list[Verdict]]] = []
    verdicts, agreed = recorded(), {"GET": [0, 0, 0], "HEAD": [0, 0, 0]}
    for case in cases():
        lane = await read_by_lane(case)
        others = [read_by_h11(case), *verdicts[case]]
        same = zip(agreed[case.method], others, strict=True)
        agreed[case.method] = [count + (lane is not None and other == lane) for count, other in same]
        if lane is not None and any(other is not None and other != lane for other in others):
            different.append((case, lane, others))
    return different, agreed


def test_rejects_responses_that_another_program_reads_differently() -> None:
    different, agreed = asyncio.run(compared())
    assert different == []
    assert min(agreed["GET"]) > 100
    assert min(agreed["HEAD"]) > 30


@cache
def known() -> list[Case]:
    return cases()


PIECES = st.sampled_from(BYTES) | st.binary(min_size=1, max_size=1)


@st.composite
def damaged(draw: st.DrawFn) -> Case:
    """A known or random response, with a few bytes inserted, removed or replaced."""
    if draw(st.booleans()):
        method, data = draw(st.sampled_from(known()))
    else:
        method = draw(st.sampled_from(["GET", "HEAD"]))
        lines = [draw(st.sampled_from(STARTS)), *draw(st.lists(st.sampled_from(LINES[:-1]), max_size=3))]
        data = b"\r\n".join(lines) + b"\r\n\r\n" + b"".join(draw(st.lists(st.sampled_from(BODIES), max_size=2)))
    for _ in range(draw(st.integers(0, 3))):
        at, gone = draw(st.integers(0, len(data))), draw(st.integers(0, 2))
        data = data[:at] + draw(PIECES) + data[at + gone :]
    return Case(method, data)


MANY = st.lists(damaged(), min_size=10, max_size=30)


async def misread(responses: list[Case], read: Callable[[Case], Verdict]) -> list[tuple[Case, Verdict, Verdict]]:
    """Return the responses that the lane accepts and another program reads differently."""
    both = [(case, await read_by_lane(case), read(case)) for case in responses]
    return [(case, lane, other) for case, lane, other in both if lane is not None and other not in (None, lane)]


@pytest.fixture(scope="module", params=["h11", *INSTALLED])
def read(request: pytest.FixtureRequest) -> Iterator[Callable[[Case], Verdict]]:
    """Return a function that reads a response with another program."""
    if request.param == "h11":
        yield read_by_h11
        return
    with Oracle(request.param) as oracle:
        yield oracle.read


@given(responses=MANY)
def test_rejects_random_responses_that_another_program_reads_differently(
    read: Callable[[Case], Verdict], responses: list[Case]
) -> None:
    assert asyncio.run(misread(responses, read)) == []
