"""Requests by host and time of the day."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from agent_sandbox.policy.decision import Effect
from agent_sandbox.runtime.traffic.record import Record
from agent_sandbox.runtime.traffic.totals import NO_HOST

SLOTS = 48  # of a day
# An agent can request any number of names; those beyond this number are left out.
MOST_HOSTS = 1_000


class Slots(Struct, frozen=True):
    """The numbers of allowed and of denied requests in each slot."""

    allowed: list[int] = field(default_factory=lambda: [0] * SLOTS)
    denied: list[int] = field(default_factory=lambda: [0] * SLOTS)


class Timeline:
    """Counts records by host, in 48 slots from `start`."""

    def __init__(self, start: datetime, length: timedelta = timedelta(days=1)) -> None:
        self._start, self._slot = start, length / SLOTS
        self._hosts: dict[str, Slots] = {}

    @property
    def hosts(self) -> Mapping[str, Slots]:
        """The counts by host."""
        return self._hosts

    def add(self, record: Record) -> None:
        """Count a record, if it is in one of the slots."""
        at = self._at(record.time)
        name = record.host or NO_HOST
        if at is None or (name not in self._hosts and len(self._hosts) >= MOST_HOSTS):
            return
        slots = self._hosts.setdefault(name, Slots())
        (slots.denied if record.decision == Effect.DENY else slots.allowed)[at] += 1

    def _at(self, time: str) -> int | None:
        if not time:
            return None
        at = (datetime.fromisoformat(time).replace(tzinfo=UTC) - self._start) // self._slot
        return at if 0 <= at < SLOTS else None

    def times(self) -> Sequence[datetime]:
        """Return when each slot begins."""
        return [self._start + number * self._slot for number in range(SLOTS)]
