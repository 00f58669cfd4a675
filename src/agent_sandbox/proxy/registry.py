"""How many connections a client may hold: when it wants one too many, the one that was quiet the longest is closed.

So a client that opens thousands and says nothing harms its own, and its working ones go on.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Registry:
    """Counts the open connections of each client address, and knows their order of last use."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._open: defaultdict[str, OrderedDict[object, Callable[[], None]]] = defaultdict(OrderedDict)

    @contextmanager
    def admit(self, client: str, close: Callable[[], None]) -> Iterator[Callable[[], None]]:
        """Hold a place for as long as the block runs. Yields what to call whenever the connection is used."""
        place, places = object(), self._open[client]
        if len(places) >= self._limit:
            _, close_quietest = places.popitem(last=False)
            close_quietest()
        places[place] = close
        try:
            yield lambda: places.move_to_end(place) if place in places else None
        finally:
            places.pop(place, None)
            if not places:
                self._open.pop(client, None)

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))
