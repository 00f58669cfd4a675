"""How many bytes of header fields one HTTP/2 connection has the proxy hold.

HPACK says in a byte that a field is the same as before, so 7 KB become a hundred requests of 64 KB each. They are held
while they wait for a server, or for the rest of an answer.
"""

import h2.events

WITH_FIELDS = h2.events.RequestReceived | h2.events.ResponseReceived | h2.events.TrailersReceived
TOO_MANY = "too many header fields in the requests under way"


class HeldFields:
    """Counts the fields of each stream until the stream is released."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[int, int] = {}
        self._total = 0

    def exceeded_by(self, event: h2.events.Event) -> bool:
        """Count the fields of `event`, if it has any; tell whether that makes too many."""
        if not isinstance(event, WITH_FIELDS):
            return False
        stream = event.stream_id or 0
        size = sum(len(name) + len(value) for name, value in event.headers or ())
        self._sizes[stream] = self._sizes.get(stream, 0) + size
        self._total += size
        return self._total > self._limit

    def release(self, stream: int | None) -> None:
        """Count the fields of a stream no longer."""
        self._total -= self._sizes.pop(stream or 0, 0)
