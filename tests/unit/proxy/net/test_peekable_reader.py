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
        """A place that notes each use."""

        @override
        def used(self) -> None:
            used.append("used")

    return PeekableReader(reader, Noting(Held())), used


async def test_peeked_bytes_are_read_again() -> None:
    subject, used = lead(b"hello")
    assert await subject.more()
    assert subject.ahead == b"hello"
    assert (await subject.read(2), await subject.read()) == (b"hello", b"")
    assert used == ["used", "used"]


async def test_taken_bytes_are_not_read_again() -> None:
    subject, _ = lead(b"hello")
    await subject.more()
    assert (subject.take(3), await subject.read(100)) == (b"hel", b"lo")


async def test_release_returns_the_reader_and_the_peeked_bytes() -> None:
    subject, _ = lead(b"hello")
    await subject.more()
    reader, ahead = subject.release()
    assert (ahead, subject.ahead, await reader.read()) == (b"hello", b"", b"")


async def test_more_returns_false_at_the_end() -> None:
    subject, _ = lead(b"")
    assert not await subject.more()
