from __future__ import annotations

import asyncio
from typing import override

from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader


def lead(data: bytes, *, end: bool = True) -> tuple[PeekableReader, list[str]]:
    reader, used = asyncio.StreamReader(), []
    reader.feed_data(data)
    if end:
        reader.feed_eof()

    class Noting(Place):
        """Notes each use."""

        @override
        def used(self) -> None:
            used.append("used")

    return PeekableReader(reader, Noting(Held())), used


async def test_what_was_read_ahead_is_read_again() -> None:
    subject, used = lead(b"hello")
    assert await subject.more()
    assert subject.ahead == b"hello"
    assert (await subject.read(2), await subject.read()) == (b"hello", b"")
    assert used == ["used", "used"]


async def test_what_is_taken_is_gone() -> None:
    subject, _ = lead(b"hello")
    await subject.more()
    assert (subject.take(3), await subject.read(100)) == (b"hel", b"lo")


async def test_whoever_reads_by_itself_gets_what_was_read_ahead() -> None:
    subject, _ = lead(b"hello")
    await subject.more()
    reader, ahead = subject.release()
    assert (ahead, subject.ahead, await reader.read()) == (b"hello", b"", b"")


async def test_the_end_is_noticed() -> None:
    subject, _ = lead(b"")
    assert not await subject.more()
