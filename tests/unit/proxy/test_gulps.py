from __future__ import annotations

import asyncio

from agent_sandbox.proxy.gulps import GULP, Gulps


async def test_all_that_has_come_is_read_at_once() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * 100_000)
    assert await Gulps(reader).read(65_535) == b"x" * 100_000


async def test_no_event_is_larger_than_a_gulp() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * (GULP + 1))
    reader.feed_eof()
    gulps = Gulps(reader)
    assert [len(await gulps.read()) for _ in range(3)] == [GULP, 1, 0]
