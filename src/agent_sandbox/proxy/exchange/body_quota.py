"""A quota for request bodies that are buffered until the request is decided: few at once, each small, not for long."""

from collections.abc import Callable

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits

# Stop counting a body after this time, in case the end of its request was missed.
FORGOTTEN_SECONDS = 60.0


class BodyQuota:
    """Counts the requests whose bodies are buffered, from the request head until they are forwarded or answered."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._held: list[tuple[float, Exchange]] = []

    def admits(self, exchange: Exchange) -> bool:
        """Mark `exchange` as buffered and return True; return False if too many bodies are buffered already."""
        now = self._clock()
        self._held = [(until, other) for until, other in self._held if other.held and now < until]
        if len(self._held) >= self._limits.bodies_held:
            return False
        self._held.append((now + FORGOTTEN_SECONDS, exchange))
        exchange.held = True
        return True
