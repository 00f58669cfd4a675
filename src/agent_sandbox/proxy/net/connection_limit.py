"""How many connections a client may hold: when it wants one too many, the one that was quiet the longest is closed.

So a client that opens thousands and says nothing harms its own, and its working ones go on: those that never had a
byte of a server's go first. A few of them are spared, since each connection begins as one.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SPARED = 8  # one in so many places is for connections that begin

Close = Callable[[], None]
type Places = OrderedDict[Place, Close]


@dataclass(slots=True, kw_only=True)
class Held:
    """The places of one client address, each kind in the order of its last use."""

    beginning: Places = field(default_factory=OrderedDict)
    working: Places = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self.beginning) + len(self.working)

    def take_quietest(self, spared: int) -> Close:
        """Take the place away that is missed the least."""
        among = self.beginning if len(self.beginning) > spared or not self.working else self.working
        return among.popitem(last=False)[1]


class Place:
    """The place of one connection: it is told of each use."""

    def __init__(self, held: Held) -> None:
        self._held = held

    def used(self) -> None:
        """Something came from the client."""
        for places in (self._held.working, self._held.beginning):
            if self in places:
                places.move_to_end(self)

    def served(self) -> None:
        """Something came for the client."""
        if self in self._held.beginning:
            self._held.working[self] = self._held.beginning.pop(self)
        self.used()


class ConnectionLimiter:
    """Counts the open connections of each client address, and knows their order of last use."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._open: defaultdict[str, Held] = defaultdict(Held)

    @contextmanager
    def admit(self, client: str, close: Close) -> Iterator[Place]:
        """Hold a place for as long as the block runs."""
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
        # Another thread asks: a list of them is taken at once, while the registry may change.
        return sum(map(len, list(self._open.values())))
