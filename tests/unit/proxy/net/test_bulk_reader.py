import asyncio

import pytest

from agent_sandbox.proxy.net.bulk_reader import LARGE_READ, SMALL_READ, BulkReader


async def test_reads_all_available_bytes_at_once() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * 100_000)
    assert await BulkReader(reader).read(65_535) == b"x" * 100_000


async def test_reads_at_most_large_read_bytes_at_once() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * (LARGE_READ + 1))
    reader.feed_eof()
    gulps = BulkReader(reader)
    assert [len(await gulps.read()) for _ in range(3)] == [LARGE_READ, 1, 0]


async def test_small_reads_let_other_tasks_run() -> None:
    steps: list[int] = []
    reader = asyncio.StreamReader()
    reader.feed_data(b"x" * (SMALL_READ + 1))
    gulps = BulkReader(reader)
    gulps.read_size = lambda: SMALL_READ
    for size in (SMALL_READ, 1):
        asyncio.get_running_loop().call_soon(steps.append, size)
        assert len(await gulps.read()) == size
        assert steps[-1:] == [size]


async def test_calls_on_reset_when_the_connection_is_reset() -> None:
    told: list[str] = []
    reader = asyncio.StreamReader()
    reader.set_exception(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await BulkReader(reader, on_reset=lambda: told.append("reset")).read()
    assert told == ["reset"]
