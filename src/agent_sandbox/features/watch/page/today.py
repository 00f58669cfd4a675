"""Summarise today's audit log: requests by host and time, and what each line of the policy decided."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct, field

from agent_sandbox.audit_event import Event
from agent_sandbox.features.policy.file import POLICY_FILE
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.features.traffic.totals import NO_HOST, By, Total, Totals
from agent_sandbox.features.traffic.wanted import Wanted
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policyfile import LayerFile, load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.reading import read_policy
from agent_sandbox.policytools.usage import Asked, Line, Usage

MOST_HOSTS = 100  # that are shown
# An agent can request any number of names; those beyond this number are left out.
MOST_COUNTED = 1_000
SLOTS = 48  # of a day
SLOT = timedelta(days=1) / SLOTS
SERVICE = "service "  # how the layer of a service's rules begins

type EachRecord = Callable[[Callable[[Record], object]], None]


class Slots(Struct, frozen=True):
    """The numbers of allowed and of denied requests in each slot."""

    allowed: list[int] = field(default_factory=lambda: [0] * SLOTS)
    denied: list[int] = field(default_factory=lambda: [0] * SLOTS)


class Timeline:
    """Counts records by host, in the slots of the day that begins at `start`."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self.hosts: dict[str, Slots] = {}

    def add(self, record: Record) -> None:
        """Count a record, if it is in one of the slots."""
        at = self._at(record.time)
        name = record.host or NO_HOST
        if at is None or (name not in self.hosts and len(self.hosts) >= MOST_COUNTED):
            return
        slots = self.hosts.setdefault(name, Slots())
        (slots.denied if record.decision == Effect.DENY else slots.allowed)[at] += 1

    def _at(self, time: str) -> int | None:
        if not time:
            return None
        at = (datetime.fromisoformat(time).replace(tzinfo=UTC) - self._start) // SLOT
        return at if 0 <= at < SLOTS else None

    def times(self) -> Sequence[datetime]:
        """Return when each slot begins."""
        return [self._start + number * SLOT for number in range(SLOTS)]


class Hosts(Struct, frozen=True, kw_only=True):
    """The busiest hosts with their slots, how many there are, and when each slot begins."""

    rows: Sequence[tuple[Total, Slots]]
    count: int
    times: Sequence[datetime]


class Use(Struct, frozen=True, kw_only=True):
    """The counts of one entry or service in a line of the policy file."""

    what: str
    allowed: int
    denied: int


class PolicyUse(Struct, frozen=True, kw_only=True):
    """The policy file line by line, the uses by line number, and what other files decided."""

    text: Sequence[str]
    uses: Mapping[int, Sequence[Use]]
    others: Sequence[Use]


class Today:
    """Reads the log at each call, one call at a time: a log of the largest size takes 3 seconds."""

    def __init__(self, root: Path, each_record: EachRecord, *, now: Callable[[], datetime] = datetime.now) -> None:
        self._file = root / POLICY_FILE
        self._each_record = each_record
        self._now = now
        self._lock = threading.Lock()

    def hosts(self) -> Hosts:
        """Return the requests by host."""
        start = self._midnight()
        totals, timeline = Totals(), Timeline(start)

        def take(record: Record) -> None:
            totals.add(record)
            if record.event != Event.WEBSOCKET:  # its end; its beginning was counted
                timeline.add(record)

        self._read(start, take)
        every = totals.top(By.REQUESTS)
        rows = [(total, timeline.hosts.get(total.host, Slots())) for total in every[:MOST_HOSTS]]
        return Hosts(rows=rows, count=len(every), times=timeline.times())

    def policy(self) -> PolicyUse:
        """Return what the lines of the policy decided."""
        usage = Usage(load_here(self._file, os.environ))

        def take(record: Record) -> None:
            if record.event != Event.WEBSOCKET:
                usage.add(_asked(record))

        self._read(self._midnight(), take)
        lines = usage.lines()
        uses: dict[int, list[Use]] = {}
        for number, use in (*_own(lines), *self._services(lines)):
            uses.setdefault(number, []).append(use)
        text = decode_policy(read_policy(self._file), file=str(POLICY_FILE)).splitlines()
        return PolicyUse(text=text, uses=uses, others=[*_others(lines)])

    def _midnight(self) -> datetime:
        return self._now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)

    def _read(self, start: datetime, take: Callable[[Record], object]) -> None:
        since = start.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        wanted = Wanted(since=since)
        with self._lock:
            self._each_record(lambda record: take(record) if wanted.takes(record) else None)

    def _services(self, lines: Sequence[Line]) -> Iterator[tuple[int, Use]]:
        layer = load_layer(LayerFile(name=PROJECT, path=self._file), services=services_beside(self._file))
        for number, service in enumerate(layer.spec.services):
            found = [line for line in lines if line.origin.layer == f"{SERVICE}{service.name}"]
            yield layer.origin("services", number).line, _sum(f"service {service.name}", found)


def _own(lines: Sequence[Line]) -> Iterator[tuple[int, Use]]:
    for line in lines:
        if line.origin.layer == PROJECT and line.origin.file == POLICY_FILE.name:
            yield line.origin.line, _sum("; ".join(line.rules), [line])


def _others(lines: Sequence[Line]) -> Iterator[Use]:
    files = {line.origin.file for line in lines if not line.origin.layer.startswith(SERVICE)} - {POLICY_FILE.name}
    for file in sorted(files):
        yield _sum(file, [line for line in lines if line.origin.file == file])


def _sum(what: str, lines: Sequence[Line]) -> Use:
    return Use(what=what, allowed=sum(line.allowed for line in lines), denied=sum(line.denied for line in lines))


def _asked(record: Record) -> Asked:
    return Asked(record.decision, record.rule, record.scheme, record.host, record.port, record.method, record.path)
