"""Keep the newest items for a screen that takes them at intervals, and count those that were left out."""

import threading
from collections import deque


class Backlog[Item]:
    """Keeps the `most` newest items, for any thread."""

    def __init__(self, most: int) -> None:
        self._items: deque[Item] = deque(maxlen=most)
        self._missed = 0
        self._lock = threading.Lock()

    def add(self, item: Item) -> None:
        """Add an item; if there are too many, the oldest is left out."""
        with self._lock:
            self._missed += len(self._items) == self._items.maxlen
            self._items.append(item)

    def miss(self, count: int) -> None:
        """Count items that were left out before they came here."""
        with self._lock:
            self._missed += count

    def take(self) -> tuple[list[Item], int]:
        """Return the items, oldest first, and how many were left out, since the last time."""
        with self._lock:
            items, missed = [*self._items], self._missed
            self._items.clear()
            self._missed = 0
        return items, missed
