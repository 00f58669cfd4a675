from __future__ import annotations

from agent_sandbox.proxy.audit.record import AuditRecord, Event, encode, render

NOON = 1_700_000_000.5


def test_a_line_has_its_fields_in_the_order_that_is_promised() -> None:
    line = AuditRecord(
        event=Event.REQUEST,
        decision="allow",
        rule="policy.yaml:3",
        cause="rule",
        reason="allowed",
        scheme="https",
        host="a.test",
        port=443,
        method="GET",
        path="/x",
        status=200,
        tool="pip",
        bytes_in=5,
        bytes_out=6,
        duration_ms=1.2345,
        client="10.0.0.3",
    )
    assert list(render(line, now=NOON).items()) == [
        ("time", "2023-11-14T22:13:20.500Z"),
        ("event", "request"),
        ("decision", "allow"),
        ("rule", "policy.yaml:3"),
        ("cause", "rule"),
        ("reason", "allowed"),
        ("scheme", "https"),
        ("host", "a.test"),
        ("port", 443),
        ("method", "GET"),
        ("path", "/x"),
        ("status", 200),
        ("tool", "pip"),
        ("bytes_in", 5),
        ("bytes_out", 6),
        ("duration_ms", 1.2),
        ("client", "10.0.0.3"),
    ]


def test_texts_are_cut_to_size_and_made_valid() -> None:
    got = render(AuditRecord(event=Event.CONNECT, path="x" * 3_000, host="\udc80"), now=NOON)
    assert got["path"] == "x" * 2_048 + "... (3000 characters)"
    assert got["host"] == "\\udc80"


def test_a_line_is_one_line_of_ascii() -> None:
    assert encode({"path": '/\n{"decision": "allow"}\u202e'}) == (
        b'{"path": "/\\n{\\"decision\\": \\"allow\\"}\\u202e"}\n'
    )
