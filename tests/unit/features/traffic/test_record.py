import json

from msgspec import to_builtins

from agent_sandbox.features.traffic.record import LARGEST, LONGEST, Use, read_record
from table_tests import each

LINE = {
    "time": "2026-01-02T10:00:00.000Z",
    "event": "request",
    "decision": "allow",
    "rule": "policy.yaml:3",
    "cause": "",
    "reason": "allowed by policy.yaml:3",
    "scheme": "https",
    "host": "a.test",
    "port": 443,
    "method": "GET",
    "path": "/",
    "status": 200,
    "tool": "npm",
    "mcp": "tools/call search",
    "bytes_in": 5,
    "bytes_out": 6,
    "duration_ms": 7.5,
    "client": "172.18.0.3:40000",
    "secrets": [{"secret": "t", "kind": "bearer", "source": "stored", "age_s": 9}],
    "hint": "upload: sent 9 MiB at once",
    "headers": "host, authorization",
}


def test_reads_a_line_with_all_its_fields() -> None:
    record = read_record(json.dumps(LINE))
    assert record is not None
    assert {**LINE, "id": record.id} == {**to_builtins(record), "secrets": [*to_builtins(record)["secrets"]]}


def test_the_id_depends_on_the_line_alone() -> None:
    line = json.dumps(LINE)
    records = [
        read_record(text) for text in (line, f"{line}\n", f"proxy-1  | {line}\r\n", line.replace("a.test", "b.test"))
    ]
    ids = [record.id for record in records if record]
    assert ids == [ids[0], ids[0], ids[0], ids[3]]
    assert len(set(ids)) == 2


@each("text", ["", "no json", "[]", "3", '{"event": "request"}', '{"decision": ' + "[" * 9_999, "{"])
def test_other_lines_are_not_records(text: str) -> None:
    assert read_record(text) is None


@each(
    ("field", "value", "expected"),
    [
        ("time", "yesterday", ""),
        ("time", 3, ""),
        ("time", "2026-99-99T99:99:99Z", ""),
        ("host", None, ""),
        ("host", ["a"], ""),
        ("path", "/" * (LONGEST + 1), f"{'/' * LONGEST}... ({LONGEST + 1} characters)"),
        ("port", "443", None),
        ("port", True, None),
        ("port", -1, None),
        ("status", LARGEST + 1, None),
        ("bytes_in", None, 0),
        ("bytes_out", 1 << 70, 0),
        ("duration_ms", True, 0.0),
        ("duration_ms", "1", 0.0),
        ("duration_ms", -1, 0.0),
        ("duration_ms", 1e300, 0.0),
        ("duration_ms", 3, 3.0),
        ("secrets", "t", ()),
        ("secrets", ["t", {"secret": 1, "age_s": "x"}], (Use(secret="", kind="", source="", age_s=0),)),
        ("secrets", [{}] * 99, (Use(secret="", kind="", source="", age_s=0),) * 32),
    ],
)
def test_replaces_invalid_values_and_limits_lengths(field: str, value: object, expected: object) -> None:
    record = read_record(json.dumps({**LINE, field: value}))
    assert record is not None
    assert getattr(record, field) == expected
