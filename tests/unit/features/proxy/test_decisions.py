from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from agent_sandbox.features.proxy.decisions import as_text, is_probe, local_time, read_line
from table_tests import each

LINE: dict[str, Any] = {
    "time": "2026-01-02T03:04:05.678Z",
    "event": "request",
    "decision": "deny",
    "reason": "no rule allows host example.com",
    "host": "example.com",
    "port": 443,
    "method": "GET",
    "path": "/a?b=1",
}


@each(
    ("change", "expected"),
    [
        ({}, "03:04:05  deny   GET https://example.com/a?b=1  no rule allows host example.com"),
        ({"port": 80}, "03:04:05  deny   GET http://example.com/a?b=1  no rule allows host example.com"),
        (
            {"port": 8443, "event": "connect", "method": "", "path": ""},
            "03:04:05  deny   connect example.com:8443  no rule allows host example.com",
        ),
        ({"host": "", "event": "policy", "reason": "policy reloaded"}, "03:04:05  deny   policy  policy reloaded"),
        ({"decision": "allow", "reason": ""}, "03:04:05  allow  GET https://example.com/a?b=1"),
        (
            {"decision": "allow", "reason": "", "method": "POST", "path": "/mcp", "mcp": "tools/call search"},
            "03:04:05  allow  POST https://example.com/mcp (tools/call search)",
        ),
        (
            {"decision": "allow", "reason": "by x", "hint": "upload: sent 9 MiB"},
            "03:04:05  allow  GET https://example.com/a?b=1  by x; hint: upload: sent 9 MiB",
        ),
        ({"time": "soon"}, "soon  deny   GET https://example.com/a?b=1  no rule allows host example.com"),
    ],
)
def test_formats_a_decision_as_one_line(change: dict[str, Any], expected: str) -> None:
    assert as_text(LINE | change, zone=UTC) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"decision": "deny"}', {"decision": "deny"}), ('proxy-1 | {"decision": "deny"}', {"decision": "deny"})],
)
def test_reads_a_log_line_with_or_without_a_prefix(text: str, expected: dict[str, str]) -> None:
    assert read_line(text) == expected


@each("text", ['{"listening": "x"}', "plain words", "[1]", "{", ""])
def test_ignores_lines_that_are_not_decisions(text: str) -> None:
    assert read_line(text) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (LINE, False),
        (LINE | {"event": "start"}, True),
        # The host name alone does not make a request one of the stack's own.
        (LINE | {"host": "agent-sandbox.invalid"}, False),
        (LINE | {"event": "health"}, True),
    ],
)
def test_recognises_start_and_health_records_by_their_event(line: dict[str, Any], *, expected: bool) -> None:
    assert is_probe(line) is expected


def test_a_line_that_cannot_be_parsed_is_none() -> None:
    lines = ('{"a":' * 100_000, f'{{"decision": "deny", "port": {"9" * 5_000}}}', "{", "[1]")
    assert [read_line(line) for line in lines] == [None, None, None, None]


def test_shows_times_in_the_users_time_zone() -> None:
    zone = timezone(timedelta(hours=2))
    assert local_time("2026-01-02T23:00:00.000Z", zone=zone) == "2026-01-03 01:00:00"
    assert as_text(LINE, zone=zone).startswith("05:04:05  ")
    first = "0001-01-01T00:00:00Z"  # no year is before it, in any zone
    assert local_time(first, zone=timezone(-timedelta(hours=2))) == first
