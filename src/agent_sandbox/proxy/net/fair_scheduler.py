"""Penalise expensive connections: after t seconds of work, pause reading for at least t."""

from collections.abc import Callable

MUCH_SECONDS = 0.05  # for one read; one of a normal download takes a hundredth of that


class FairScheduler:
    """Shared by all connections: several expensive ones take turns, and half of the time is left for the others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._free = 0.0

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
