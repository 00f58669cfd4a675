"""Give each connection its turn: one expensive piece of work at a time, and half of the time for all that costs little.

Work that a server's data causes (decompressing, searching, filtering) is an iterator of pieces, each bounded in what it
puts out. A turn is taken before a piece: however many connections have such work, the event loop is free after each.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

from msgspec import Struct

MUCH_SECONDS = 0.05  # for one read; one of a normal download takes a hundredth of that
# After so much, no further piece is made in the same turn.
MOST_BYTES, MOST_SECONDS = 65_536, 0.001
# After this much work, pause for the time that it took, so other tasks run.
REST_AFTER_SECONDS = 0.005


class Work(Struct):
    """The work for one body or one side of a WebSocket. `done`: the seconds that it took, on the scheduler's scale."""

    done: float = 0.0


def batch(pieces: Iterator[bytes], clock: Callable[[], float] = time.monotonic) -> tuple[bytes, bool]:
    """Return the next pieces, more than one if they cost little, and whether they are the last."""
    began, made, size = clock(), list[bytes](), 0
    for piece in pieces:
        made.append(piece)
        size += len(piece)
        if size >= MOST_BYTES or clock() - began >= MOST_SECONDS:
            return b"".join(made), False
    return b"".join(made), True


class FairScheduler:
    """Shared by all connections: several expensive ones take turns, and half of the time is left for the others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._free = 0.0
        # Start-time fair queueing: who has had the least is next. `_reached`: what the last had had before its turn.
        self._reached = 0.0
        self._worked = 0.0  # since the last rest
        self._is_taken = False
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def wait(self, took: float) -> float:
        """Return how many seconds to pause reading from a connection whose last data `took` so many to process.

        >>> turns = FairScheduler(lambda: 100.0)
        >>> turns.wait(0.01), turns.wait(2.0), turns.wait(1.0)
        (0.0, 2.0, 5.0)
        """
        if took <= MUCH_SECONDS:
            return 0.0
        now = self._clock()
        # Reserve `took` seconds for the other connections, and `took` for more work of this one.
        self._free = max(self._free, now) + 2 * took
        return self._free - took - now

    @asynccontextmanager
    async def turn(self, work: Work) -> AsyncIterator[None]:
        """Wait for the turn of `work`, to make one piece of it in the block."""
        await self._wait_for_turn(work)
        began = self._clock()
        try:
            yield
        finally:
            self._pass_on(work, self._clock() - began)

    async def next(self, pieces: Iterator[bytes], work: Work) -> tuple[bytes, bool]:
        """Return the next pieces, made when it is the turn of `work`, and whether they are the last."""
        async with self.turn(work):
            return batch(pieces, self._clock)

    async def _wait_for_turn(self, work: Work) -> None:
        work.done = max(work.done, self._reached)
        if self._is_taken:
            woken = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (work.done, next(self._numbers), woken))
            try:
                await woken
            except asyncio.CancelledError:
                if not woken.cancelled():  # it had just got its turn
                    self._wake()
                raise
        self._is_taken, self._reached = True, max(self._reached, work.done)

    def _pass_on(self, work: Work, took: float) -> None:
        """Let the event loop run, and then the next piece."""
        work.done += took
        self._worked += took
        loop = asyncio.get_running_loop()
        if self._worked < REST_AFTER_SECONDS:
            loop.call_soon(self._wake)
        else:
            loop.call_later(self._worked, self._wake)
            self._worked = 0.0

    def _wake(self) -> None:
        while self._waiting:
            _, _, woken = heappop(self._waiting)
            if not woken.done():
                woken.set_result(None)
                return
        self._is_taken = False
