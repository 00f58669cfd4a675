from typing import Any

from agent_sandbox.cli.terminal.style import parts_of
from agent_sandbox.features.traffic.decision_line import decision_line, decision_table
from table_tests import each

RECORD = {"time": "2026-01-02T03:04:05.000Z", "host": "a.test", "port": 443, "method": "GET", "path": "/"}
DENY = RECORD | {"decision": "deny", "reason": "no rule  allows it"}
ALLOW = RECORD | {"decision": "allow", "method": "DELETE", "reason": "why"}


@each(
    ("record", "expected"),
    [
        (DENY, (("03:04:05  ", ""), ("deny", "deny"), ("   GET https://a.test/  no rule  allows it", ""))),
        (ALLOW, (("03:04:05  ", ""), ("allow", "allow"), ("  DELETE https://a.test/  why", ""))),
        (RECORD | {"decision": "other"}, (("03:04:05  ", ""), ("", ""), ("other  GET https://a.test/", ""))),
        # The effect counts, not a request or a reason that says it.
        (
            RECORD | {"decision": "", "method": "deny"},
            (("03:04:05  ", ""), ("", ""), ("       deny https://a.test/", "")),
        ),
    ],
)
def test_colours_only_the_decision(record: dict[str, Any], expected: tuple[tuple[str, str], ...]) -> None:
    assert parts_of(decision_line(record)) == expected


def test_a_table_aligns_the_reasons() -> None:
    event = {"time": RECORD["time"], "decision": "deny", "event": "policy"}
    lines = [
        *decision_table((DENY, ALLOW, event, RECORD | {"decision": "deny", "path": f"/{'x' * 60}", "reason": "r"}))
    ]
    assert lines == [
        f"  03:04:05  deny   GET https://a.test/{' ' * 26}no rule  allows it",
        f"  03:04:05  allow  DELETE https://a.test/{' ' * 23}why",
        "  03:04:05  deny   policy",
        f"  03:04:05  deny   GET https://a.test/{'x' * 60}  r",
    ]
    assert [parts_of(line)[1] for line in lines] == [(name, name) for name in ("deny", "allow", "deny", "deny")]


def test_a_table_without_records_is_empty() -> None:
    assert [*decision_table(())] == []
