from datetime import UTC, datetime, timedelta, timezone

import pytest

from agent_sandbox.audit_event import Event
from agent_sandbox.features.traffic.record import read_record
from agent_sandbox.features.traffic.wanted import TIMES, Wanted, since_time, span, wanted
from agent_sandbox.problems import UserError
from log_lines import denied
from table_tests import each

NOW = datetime(2026, 1, 2, 10, tzinfo=UTC)
LINES = (
    denied("GET https://a.test/", at="08:00:00"),
    denied("POST https://b.a.test/", at="09:00:00", decision="allow"),
    denied("PUT https://c.test/", at="10:00:00"),
    denied("GET https://c.test/", time="", host=""),
    *(denied("GET https://c.test/", event=str(event)) for event in (Event.POLICY, Event.GRANT, Event.HEALTH)),
)


def hosts(question: Wanted) -> list[str]:
    return [record.host for record in map(read_record, LINES) if record and question.takes(record)]


@each(
    ("since", "host", "method", "denied", "expected"),
    [
        (None, None, None, False, ["a.test", "b.a.test", "c.test", ""]),
        ("90m", None, None, False, ["b.a.test", "c.test"]),
        ("2026-01-02T10:00Z", None, None, False, ["c.test"]),
        (None, "a.test", None, False, ["a.test"]),
        (None, "*.A.test", None, False, ["b.a.test"]),
        (None, ".a.test", None, False, ["a.test", "b.a.test"]),
        (None, "*", None, False, ["a.test", "b.a.test", "c.test"]),
        (None, None, "post, put", False, ["b.a.test", "c.test"]),
        (None, None, None, True, ["a.test", "c.test", ""]),
        ("1w", ".test", "GET,POST", True, ["a.test"]),
    ],
)
def test_all_conditions_must_hold(
    since: str | None,
    host: str | None,
    method: str | None,
    *,
    denied: bool,
    expected: list[str],
) -> None:
    assert hosts(wanted(since=since, host=host, method=method, denied=denied, now=NOW)) == expected


@each(
    ("text", "expected"),
    [
        ("30s", "2026-01-02T09:59:30.000Z"),
        ("7d", "2025-12-26T10:00:00.000Z"),
        ("2026-01-01", "2025-12-31T23:00:00.000Z"),
        ("2026-01-01 10:30", "2026-01-01T09:30:00.000Z"),
        ("2026-01-01T10:30:00Z", "2026-01-01T10:30:00.000Z"),
        ("2026-01-01T10:30:00+02:00", "2026-01-01T08:30:00.000Z"),
    ],
)
def test_a_time_is_an_age_or_a_date(text: str, expected: str) -> None:
    assert since_time(text, now=NOW, zone=timezone(timedelta(hours=1))) == expected


@each("text", ["yesterday", "3", "3y", "-3d", "999999w", "2026-13-01", "\x1b[2J", "0001-01-01T00:00:00+14:00"])
def test_rejects_other_times(text: str) -> None:
    with pytest.raises(UserError) as caught:
        since_time(text, now=NOW)
    (problem,) = caught.value.problems
    assert (problem.where, problem.hint) == ("--since", TIMES)
    assert problem.what.startswith("not a time: '")


def test_rejects_an_invalid_host() -> None:
    with pytest.raises(UserError) as caught:
        wanted(since=None, host="https://a.test/", method=None, denied=False, now=NOW)
    (problem,) = caught.value.problems
    assert str(problem) == "--host: 'https://a.test/' is a URL, not a host; write only the host; paths go under `rules`"


@each(("text", "expected"), [("90m", timedelta(minutes=90)), ("2w", timedelta(weeks=2)), ("soon", None), ("", None)])
def test_a_span_is_a_number_and_a_unit(text: str, expected: timedelta | None) -> None:
    assert span(text) == expected
