from __future__ import annotations

import asyncio
import socket

import pytest

from agent_sandbox.proxy.net.linger_close import closed, closing_with, linger_close
from memory_streams import memory_streams


async def test_what_is_taken_is_closed_in_good_order() -> None:
    _, writer, transport = memory_streams()
    await linger_close(writer, seconds=5)
    assert transport.ended == "closed"


@pytest.mark.parametrize(("unread", "looked"), [([100, 100], 2), ([100, 90, 80, 80, 10], 4)])
async def test_what_is_left_unread_is_dropped_once_nothing_more_is_taken(unread: list[int], looked: int) -> None:
    _, writer, transport = memory_streams()
    transport.unread, transport.lingers = [*unread], True
    await linger_close(writer, seconds=0.001)
    assert (transport.ended, len(unread) - len(transport.unread)) == ("aborted", looked)


async def test_what_the_kernel_holds_is_unread_as_well() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(bytes(4_000_000))
        asyncio.get_running_loop().call_later(0.02, theirs.recv, 100_000)
        await linger_close(writer, seconds=0.05)
        assert reader.at_eof()


async def test_who_is_told_to_stop_waiting_drops_it() -> None:
    _, writer, transport = memory_streams()
    transport.unread, transport.lingers = [1], True
    letting_go = asyncio.create_task(linger_close(writer, seconds=5))
    await asyncio.sleep(0)
    letting_go.cancel()
    with pytest.raises(asyncio.CancelledError):
        await letting_go
    assert transport.ended == "aborted"


async def test_one_who_no_longer_waits_for_the_end_keeps_no_other_from_it() -> None:
    _, writer, _ = memory_streams()
    first, second = (asyncio.create_task(closed(writer)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    writer.close()
    await second
    assert (first.cancelled(), second.done()) == (True, True)


@pytest.mark.parametrize("closes", [True, False])
async def test_what_waits_for_another_is_told_when_its_own_side_is_gone(*, closes: bool) -> None:
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
