from __future__ import annotations

import asyncio
import threading

import pytest

from agent_sandbox.proxy.control.side_thread import SideThread


async def test_runs_work_while_the_traffic_is_busy() -> None:
    async def work() -> str:
        done.set()
        return "answered"

    done = threading.Event()
    beside = SideThread()
    waiting = asyncio.create_task(beside.do(work()))
    await asyncio.sleep(0)
    assert done.wait(5)  # this thread, that of the traffic, does nothing else meanwhile
    assert await waiting == "answered"
    beside.close(last=done.clear)
    assert not done.is_set()


async def test_takes_one_step_to_the_loop_of_the_traffic() -> None:
    async def where() -> int:
        return threading.get_ident()

    async def both() -> tuple[int, int]:
        return await where(), await beside.in_traffic(where())

    beside = SideThread()
    there, here = await beside.do(both())
    beside.close(last=bool)
    assert (here, there != here) == (threading.get_ident(), True)


async def test_cancels_what_still_runs_when_it_is_closed() -> None:
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    ended = threading.Event()
    beside = SideThread()
    waiting = asyncio.create_task(beside.do(endless()))
    await asyncio.sleep(0)
    beside.close(last=bool)
    assert ended.is_set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_falls_over_there_falls_over_here() -> None:
    async def fall() -> None:
        raise ZeroDivisionError

    beside = SideThread()
    with pytest.raises(ZeroDivisionError):
        await beside.do(fall())
    beside.close(last=bool)
