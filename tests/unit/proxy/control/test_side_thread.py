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
    assert done.wait(30)  # the traffic thread blocks here
    assert await waiting == "answered"
    beside.close(last=done.clear)
    assert not done.is_set()


async def test_in_traffic_runs_a_coroutine_in_the_thread_of_the_traffic() -> None:
    async def where() -> int:
        return threading.get_ident()

    async def both() -> tuple[int, int]:
        return await where(), await beside.in_traffic(where())

    beside = SideThread()
    there, here = await beside.do(both())
    beside.close(last=bool)
    assert (here, there != here) == (threading.get_ident(), True)


async def test_close_cancels_running_work() -> None:
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


async def test_do_raises_the_exception_of_its_coroutine() -> None:
    async def fall() -> None:
        raise ZeroDivisionError

    beside = SideThread()
    with pytest.raises(ZeroDivisionError):
        await beside.do(fall())
    beside.close(last=bool)
