"""The event loop in tests: some rounds of it, and `asyncio.sleep` replaced for one task only."""

import asyncio

import pytest


def recorded_sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list that gets the seconds of each sleep of the current task, which does not sleep any more."""
    slept: list[float] = []
    really_sleep, this = asyncio.sleep, asyncio.current_task()

    async def sleep(seconds: float) -> None:
        if asyncio.current_task() is this:
            slept.append(seconds)
        else:
            await really_sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept


async def turns(count: int = 20) -> None:
    """Let the other tasks of the event loop run some rounds."""
    for _ in range(count):
        await asyncio.sleep(0)
