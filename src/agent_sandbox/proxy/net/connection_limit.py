"""Limit the connections per client: over the limit, the one that was idle the longest is closed.

Connections that never received data from a server go first, so a client that opens thousands of idle ones keeps its
working ones. A few of these are spared, because every connection starts that way.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field

SPARED = 8  # 1/8 of the limit is reserved for new connections

Close = Callable[[], None]
type Places = OrderedDict[Place, Close]


class Held(Struct, kw_only=True):
    """The connections of one client address, each kind in order of last use."""

    beginning: Places = field(default_factory=OrderedDict)
    working: Places = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.beginning) + len(self.working)

    def take_quietest(self, spared: int) -> Close:
        """Remove the connection to close, and return the function that closes it."""
        among = self.beginning if len(self.beginning) > spared or not self.working else self.working
        return among.popitem(last=False)[1]


class Place:
    """The entry of one connection. Call `used` or `served` on each use."""

    def __init__(self, held: Held) -> None:
        self._held = held

    def used(self) -> None:
        """Record that data came from the client."""
        for places in (self._held.working, self._held.beginning):
            if self in places:
                places.move_to_end(self)

    def served(self) -> None:
        """Record that data came from the server."""
        if self in self._held.beginning:
            self._held.working[self] = self._held.beginning.pop(self)
        self.used()


class ConnectionLimiter:
    """Tracks the open connections of each client address in order of last use."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._open: defaultdict[str, Held] = defaultdict(Held)

    @contextmanager
    def admit(self, client: str, close: Close) -> Iterator[Place]:
        """Count a connection while the block runs; close another one of `client` if it has too many."""
        held = self._open[client]
        if len(held) >= self._limit:
            held.take_quietest(self._limit // SPARED)()
        place = Place(held)
        held.beginning[place] = close
        try:
            yield place
        finally:
            held.beginning.pop(place, None)
            held.working.pop(place, None)
            if not held:
                self._open.pop(client, None)

    def __len__(self) -> int:
        # Called from another thread: copy the values first, because the dict may change meanwhile.
        return sum(map(len, list(self._open.values())))
