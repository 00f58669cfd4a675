"""Who made much work at once waits for as long as it took, behind all who did: half of the time is for others."""

from collections.abc import Callable

MUCH_SECONDS = 0.05  # for what came at once from one side; a gulp of a download takes a hundredth of that


class FairScheduler:
    """One for all connections: many that each make much work take it in turns."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._free = 0.0

    def wait(self, took: float) -> float:
        """Return for how long whoever made so much work is not to be read any further.

        >>> turns = Turns(lambda: 100.0)
        >>> turns.wait(0.01), turns.wait(2.0), turns.wait(1.0)
        (0.0, 2.0, 5.0)
        """
        if took <= MUCH_SECONDS:
            return 0.0
        now = self._clock()
        # As long for the others, and then for as much work again.
        self._free = max(self._free, now) + 2 * took
        return self._free - took - now
