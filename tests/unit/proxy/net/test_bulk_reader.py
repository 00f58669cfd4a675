from __future__ import annotations

import asyncio

import pytest

from agent_sandbox.proxy.net.bulk_reader import LARGE_READ, SMALL_READ, BulkReader


async def test_all_that_has_come_is_read_at_once() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * 100_000)
    assert await BulkReader(reader).read(65_535) == b"x" * 100_000


async def test_no_event_is_larger_than_a_gulp() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * (LARGE_READ + 1))
    reader.feed_eof()
    gulps = BulkReader(reader)
    assert [len(await gulps.read()) for _ in range(3)] == [LARGE_READ, 1, 0]


async def test_where_it_is_to_be_read_in_sips_others_come_between() -> None:
    steps: list[str] = []
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * (SMALL_READ + 1))
    gulps = BulkReader(reader)
    gulps.read_size = lambda: SMALL_READ
    asyncio.get_running_loop().call_soon(steps.append, "another")
    assert (steps, len(await gulps.read()), steps, len(await gulps.read())) == (["another"], SMALL_READ, ["another"], 1)


async def test_a_reset_is_told_besides() -> None:
    told: list[str] = []
    reader = asyncio.StreamReader()
    reader.set_exception(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await BulkReader(reader, on_reset=lambda: told.append("reset")).read()
    assert told == ["reset"]
