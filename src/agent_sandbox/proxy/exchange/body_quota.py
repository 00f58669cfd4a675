"""Bodies that are held until it is decided what they ask for: small ones, few at once, and not for long."""

from collections.abc import Callable

from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits

# A request that came to no end anybody noticed counts no longer.
FORGOTTEN_SECONDS = 60.0


class BodyQuota:
    """Knows the requests whose bodies are held: from their heads until they are on their way, or answered."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._held: list[tuple[float, Exchange]] = []

    def admits(self, exchange: Exchange) -> bool:
        """Hold a body, unless too many are."""
        now = self._clock()
        self._held = [(until, other) for until, other in self._held if other.held and now < until]
        if len(self._held) >= self._limits.bodies_held:
            return False
        self._held.append((now + FORGOTTEN_SECONDS, exchange))
        exchange.held = True
        return True
