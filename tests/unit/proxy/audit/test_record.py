from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect
from agent_sandbox.proxy.audit.record import AuditRecord, SecretUse, render
from imports import brought_along

NOON = 1_700_000_000.5


def test_a_record_has_its_fields_in_the_documented_order() -> None:
    line = AuditRecord(
        event=Event.REQUEST,
        decision=Effect.ALLOW,
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


def test_a_request_with_secrets_names_them_with_their_ages_in_whole_seconds() -> None:
    uses = (
        SecretUse(secret="forge", kind="bearer", source="env", age=59.6),
        SecretUse(secret="index", kind="basic", source="stored", age=0.4),
    )
    values = render(AuditRecord(event=Event.REQUEST, secrets=uses), now=NOON)
    assert values["secrets"] == [
        {"secret": "forge", "kind": "bearer", "source": "env", "age_s": 60},
        {"secret": "index", "kind": "basic", "source": "stored", "age_s": 0},
    ]


def test_truncates_long_texts_and_escapes_invalid_characters() -> None:
    got = render(AuditRecord(event=Event.CONNECT, path="x" * 3_000, host="\udc80"), now=NOON)
    assert got["path"] == "x" * 2_048 + "... (3000 characters)"
    assert got["host"] == "\\udc80"


def test_reading_the_log_does_not_load_the_policy_engine() -> None:
    loaded = brought_along("import agent_sandbox.proxy.audit.reader")
    assert "agent_sandbox.audit_event" in loaded
    assert "agent_sandbox.policy" not in loaded


def test_a_record_has_the_names_of_headers_up_to_a_limit() -> None:
    values = render(AuditRecord(event=Event.REQUEST, headers="host, cookie"), now=NOON)
    assert values["headers"] == "host, cookie"
    assert "headers" not in render(AuditRecord(event=Event.REQUEST), now=NOON)
    long = str(render(AuditRecord(event=Event.REQUEST, headers="x" * 9_000), now=NOON)["headers"])
    assert long == f"{'x' * 512}... (9000 characters)"


def test_a_record_names_the_mcp_message() -> None:
    values = render(AuditRecord(event=Event.REQUEST, mcp="tools/call search"), now=NOON)
    assert values["mcp"] == "tools/call search"
    assert "mcp" not in render(AuditRecord(event=Event.REQUEST), now=NOON)


def test_a_hint_is_bounded_and_absent_if_there_is_none() -> None:
    line = AuditRecord(event=Event.REQUEST, encoded=300)
    assert {"hint", "encoded"} & render(line, now=0.0).keys() == set()
    assert render(line, now=0.0, hint="upload: x")["hint"] == "upload: x"
    assert render(line, now=0.0, hint="x" * 9_999)["hint"] == f"{'x' * 1_024}... (9999 characters)"
