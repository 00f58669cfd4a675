"""Filter audit records by host, method, time and decision."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from agent_sandbox.audit_event import Event
from agent_sandbox.features.traffic.record import Record
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import HostPattern, parse_host_pattern
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.problems import Problem, UserError

# Records that are not about a request or a connection.
OTHERS = frozenset({Event.HEALTH, Event.START, Event.POLICY, Event.GRANT, Event.FAULT})
AGO = re.compile(r"(?P<number>\d{1,6})(?P<unit>[smhdw])", re.ASCII)
UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
TIMES = "write how long ago, as in `30m`, `2h` or `7d`, or a time such as 2026-01-31 or 2026-01-31T10:00"


class Wanted(Struct, frozen=True, kw_only=True):
    """Conditions that must all hold; an empty one always does. `since` is a time in UTC."""

    since: str = ""
    host: HostPattern | None = None
    methods: frozenset[str] = frozenset()
    denied: bool = False

    def takes(self, record: Record) -> bool:
        """Return whether a record meets all conditions."""
        return (
            record.event not in OTHERS
            and record.time >= self.since
            and (self.host is None or (record.host != "" and self.host.matches(record.host)))
            and (not self.methods or record.method in self.methods)
            and (not self.denied or record.decision == Effect.DENY)
        )


def wanted(  # noqa: PLR0913 - each is an option, or the clock
    *, since: str | None, host: str | None, method: str | None, denied: bool, now: datetime, zone: tzinfo | None = None
) -> Wanted:
    """Return what the options of a command ask for; a time without a zone is in `zone` or the local one."""
    return Wanted(
        since=since_time(since, now=now, zone=zone) if since else "",
        host=_host(host) if host else None,
        methods=frozenset(filter(None, re.split(r"[,\s]+", (method or "").upper()))),
        denied=denied,
    )


def span(text: str) -> timedelta | None:
    """Return the length of a time such as `30m`, None if the text is not one.

    >>> span("90m"), span("soon")
    (datetime.timedelta(seconds=5400), None)
    """
    found = AGO.fullmatch(text)
    return int(found["number"]) * UNITS[found["unit"]] if found else None


def since_time(text: str, *, now: datetime, zone: tzinfo | None = None) -> str:
    """Return a time in UTC, as the audit log writes it.

    >>> since_time("2h", now=datetime(2026, 1, 2, 10, tzinfo=UTC))
    '2026-01-02T08:00:00.000Z'
    """
    try:
        if ago := span(text):
            when = now - ago
        else:
            when = datetime.fromisoformat(text)
            when = when.replace(tzinfo=zone) if when.tzinfo is None else when
        shown = when.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError) as error:
        raise UserError([Problem(where="--since", what=f"not a time: {safe_repr(text)}", hint=TIMES)]) from error
    return shown.replace("+00:00", "Z")


def _host(text: str) -> HostPattern:
    try:
        return parse_host_pattern(text)
    except InvalidValue as error:
        raise UserError([Problem(where="--host", what=error.what, hint=error.hint)]) from error
