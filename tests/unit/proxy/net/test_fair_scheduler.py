import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from agent_sandbox.proxy.net.fair_scheduler import (
    MOST_BYTES,
    MOST_SECONDS,
    REST_AFTER_SECONDS,
    FairScheduler,
    Work,
    batch,
)
from lane_stage import until

SECONDS = 30.0


def test_expensive_connections_wait_one_after_another() -> None:
    now = 10.0
    turns = FairScheduler(lambda: now)
    assert [turns.wait(took) for took in (0.05, 1.0, 0.5, 0.01)] == [0.0, 1.0, 2.5, 0.0]
    now = 11.0
    assert turns.wait(0.25) == 2.25
    now = 20.0
    assert turns.wait(0.25) == 0.25


class Stage:
    """Works on a clock of its own, whose pieces take as long as the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = FairScheduler(lambda: self.now)
        self.made: list[str] = []

    def pieces(self, name: str, *took: float) -> Iterator[bytes]:
        """Yield pieces that take so many seconds."""
        for seconds in took:
            self.made.append(name)
            self.now += seconds
            yield name.encode()

    async def work(self, name: str, *took: float) -> None:
        """Make all pieces."""
        pieces, work, is_over = self.pieces(name, *took), Work(), False
        while not is_over:
            _, is_over = await self.turns.next(pieces, work)


async def test_makes_one_piece_at_a_time_and_lets_the_event_loop_run_between_two() -> None:
    on, between = Stage(), list[int]()
    tasks = [asyncio.create_task(on.work(name, *[0.002] * 3)) for name in "abc"]
    while not all(task.done() for task in tasks):
        between.append(len(on.made))
        await asyncio.sleep(0)
    assert on.made == list("abcabcabc")
    assert all(after - before <= 1 for before, after in pairwise(between))


async def test_who_has_had_little_work_is_next() -> None:
    on = Stage()
    costly = [asyncio.create_task(on.work(name, *[0.004] * 5)) for name in "xy"]
    await until(lambda: len(on.made) >= 6)
    before = len(on.made)
    await on.work("a", *[0.0015] * 2)
    # One that had begun, or was woken, is not interrupted.
    assert on.made[before:].index("a") <= 1
    assert on.made[before:].count("a") == 2
    assert len(on.made) - before <= 5
    await asyncio.gather(*costly)


async def test_the_event_loop_is_left_alone_for_as_long_as_the_work_took(monkeypatch: pytest.MonkeyPatch) -> None:
    on, rests, loop = Stage(), list[float](), asyncio.get_running_loop()

    def call_later(rest: float, *what: Any) -> object:  # noqa: ANN401 - as the loop takes it
        rests.append(rest)
        return loop.call_soon(*what)

    monkeypatch.setattr(loop, "call_later", call_later)
    await on.work("a", *[REST_AFTER_SECONDS / 2] * 4)
    await on.work("b", 2.0)
    assert rests == pytest.approx([REST_AFTER_SECONDS, REST_AFTER_SECONDS, 2.0])


@pytest.mark.parametrize("is_woken", [False, True])
async def test_who_is_cancelled_while_it_waits_leaves_the_turn_to_the_next(*, is_woken: bool) -> None:
    on = Stage()
    async with on.turns.turn(Work()):
        left, stays = (asyncio.create_task(on.work(name, 0.0)) for name in "ab")
        await until(lambda: len(on.turns._waiting) == 2)
        if not is_woken:
            left.cancel()
            await asyncio.wait({left})
    if is_woken:
        on.turns._wake()  # what the event loop was asked to do
        left.cancel()
    async with asyncio.timeout(SECONDS):
        await asyncio.wait({left, stays})
    assert (left.cancelled(), on.made) == (True, ["b"])


async def test_an_error_in_a_piece_passes_the_turn_on() -> None:
    def fails() -> Iterator[bytes]:
        yield from ()
        raise ValueError

    on = Stage()
    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        await on.turns.next(fails(), Work())
    async with asyncio.timeout(SECONDS):
        assert await on.turns.next(iter([b"a"]), Work()) == (b"a", True)


def test_a_batch_ends_when_it_is_large_or_took_long() -> None:
    on = Stage()
    pieces = on.pieces("a", *[0.0] * 3)
    assert batch(pieces, lambda: on.now) == (b"aaa", True)
    assert batch(pieces, lambda: on.now) == (b"", True)
    pieces = on.pieces("a", 0.0, MOST_SECONDS, 0.0)
    assert [batch(pieces, lambda: on.now) for _ in range(2)] == [(b"aa", False), (b"a", True)]
    large = iter([bytes(MOST_BYTES - 1), b"aa", b"b"])
    assert [len(batch(large, lambda: on.now)[0]) for _ in range(2)] == [MOST_BYTES + 1, 1]
