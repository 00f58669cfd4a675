from typing import Any

from agent_sandbox.cli.steps.decision_line import decision_line
from agent_sandbox.cli.terminal.style import parts_of
from table_tests import each

RECORD = {"time": "2026-01-02T03:04:05.000Z", "host": "a.test", "port": 443, "method": "GET", "path": "/"}


@each(
    ("record", "expected"),
    [
        (
            {"decision": "deny", "reason": "no"},
            (("  03:04:05  ", ""), ("deny", "deny"), ("   GET https://a.test/  no", "")),
        ),
        ({"decision": "allow"}, (("  03:04:05  ", ""), ("allow", "allow"), ("  GET https://a.test/", ""))),
        ({"decision": "other"}, (("  03:04:05  ", ""), ("", ""), ("other  GET https://a.test/", ""))),
    ],
)
def test_only_the_effect_is_coloured(record: dict[str, Any], expected: tuple[tuple[str, str], ...]) -> None:
    assert parts_of(decision_line(RECORD | record, indent="  ")) == expected
