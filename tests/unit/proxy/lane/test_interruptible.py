import asyncio
import contextlib
import gc
import weakref

import pytest

from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.lane.interruptible import AbortedError, Interruptible


async def test_raises_the_first_error_in_the_block_and_the_task_continues() -> None:
    block = Interruptible()
    asyncio.get_running_loop().call_soon(block.interrupt, ValueError("first"))
    asyncio.get_running_loop().call_soon(block.interrupt, ValueError("second"))
    with pytest.raises(ValueError, match=r"^first\Z"), block:
        await asyncio.sleep(60)
    await asyncio.sleep(0)


async def test_a_block_that_swallows_the_cancellation_still_raises() -> None:
    block = Interruptible()
    asyncio.get_running_loop().call_soon(block.interrupt, ValueError("first"))

    async def swallow() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)

    with pytest.raises(ValueError, match=r"^first\Z"), block:
        await swallow()


async def test_interrupting_outside_the_block_has_no_effect() -> None:
    block = Interruptible()
    block.interrupt(ValueError("before"))
    with block:
        await asyncio.sleep(0)
    block.interrupt(ValueError("after"))
    await asyncio.sleep(0)


async def test_cancelling_the_task_takes_precedence_over_an_interruption() -> None:
    block = Interruptible()

    async def wait() -> None:
        with block:
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    block.interrupt(ValueError("first"))
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_aborted_error_has_its_denial_and_reason() -> None:
    block = Interruptible()
    asyncio.get_running_loop().call_soon(block.interrupt, AbortedError(UNDECIDED))
    with pytest.raises(AbortedError) as raised, block:
        await asyncio.sleep(60)
    assert (raised.value.denial, str(raised.value)) == (UNDECIDED, UNDECIDED.reason)


async def test_what_an_interrupted_block_used_is_freed_at_once() -> None:
    class Used:
        """A decoder, for instance."""

    async def work() -> weakref.ref[Used]:
        block, used = Interruptible(), Used()
        asyncio.get_running_loop().call_soon(block.interrupt, ValueError("first"))
        found = weakref.ref(used)
        with contextlib.suppress(ValueError), block:
            await asyncio.sleep(60)
        return found

    gc.disable()
    try:
        assert (await work())() is None
    finally:
        gc.enable()
