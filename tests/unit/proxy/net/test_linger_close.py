import asyncio
import socket

import pytest

from agent_sandbox.proxy.net.linger_close import closed, closing_with, linger_close
from memory_streams import memory_streams


async def test_closes_normally_if_the_client_reads_everything() -> None:
    _, writer, transport = memory_streams()
    await linger_close(writer, seconds=5)
    assert transport.ended == "closed"


@pytest.mark.parametrize(("unread", "looked"), [([100, 100], 2), ([100, 90, 80, 80, 10], 4)])
async def test_aborts_when_the_client_stops_reading(unread: list[int], looked: int) -> None:
    _, writer, transport = memory_streams()
    transport.unread, transport.lingers = [*unread], True
    await linger_close(writer, seconds=0.001)
    assert (transport.ended, len(unread) - len(transport.unread)) == ("aborted", looked)


async def test_bytes_in_the_kernel_buffer_count_as_unread() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(bytes(4_000_000))
        asyncio.get_running_loop().call_later(0.02, theirs.recv, 100_000)
        await linger_close(writer, seconds=0.05)
        assert reader.at_eof()


async def test_cancelling_linger_close_aborts_the_connection() -> None:
    _, writer, transport = memory_streams()
    transport.unread, transport.lingers = [1], True
    letting_go = asyncio.create_task(linger_close(writer, seconds=5))
    await asyncio.sleep(0)
    letting_go.cancel()
    with pytest.raises(asyncio.CancelledError):
        await letting_go
    assert transport.ended == "aborted"


async def test_cancelling_one_waiter_does_not_affect_another_waiter() -> None:
    _, writer, _ = memory_streams()
    first, second = (asyncio.create_task(closed(writer)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    writer.close()
    await second
    assert (first.cancelled(), second.done()) == (True, True)


@pytest.mark.parametrize("closes", [True, False])
async def test_closing_with_calls_back_only_if_the_writer_closes_inside_the_block(*, closes: bool) -> None:
    _, writer, _ = memory_streams()
    told: list[str] = []
    with closing_with(writer, lambda: told.append("over")):
        if closes:
            writer.close()
        for _ in range(5):
            await asyncio.sleep(0)
    writer.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert told == ["over"] * closes
