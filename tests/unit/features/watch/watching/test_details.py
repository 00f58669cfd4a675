from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Question
from agent_sandbox.features.watch.watching.details import NO_RULE, question_lines, record_lines

SECRET = "secret tracker.token (bearer)"
ASKED = Question(
    id=3,
    method="GET",
    url="https://new.test/x",
    host="new.test",
    details="",
    reason="no rule allows host new.test",
    services=(),
    rule="",
    requests=1,
    seconds_left=60,
)


def test_a_question_is_shown_with_what_it_would_allow_before_its_notes() -> None:
    assert [*question_lines(ASKED)] == ["no rule allows host new.test", NO_RULE]
    full = replace(
        ASKED,
        details="a body of 2MB",
        services=("npm", "node"),
        rule="GET https://new.test/**",
        risks=("an address",),
        sender="curl " + "x" * 200,
        headers="host",
    )
    assert [*question_lines(full)] == [
        "with a body of 2MB",
        "no rule allows host new.test",
        "allowed by the service npm, or node",
        "for longer than once: GET https://new.test/**",
        "careful: an address",
        f"sent by (not verified): curl {'x' * 131}...",
        "headers: host",
    ]


def test_a_request_is_shown_with_rule_place_bytes_time_and_names_of_headers_and_secrets() -> None:
    record = {
        "decision": "allow",
        "reason": "allowed by policy.yaml:6",
        "hint": "upload: large",
        "rule": "policy.yaml:6",
        "status": 200,
        "bytes_out": 10,
        "bytes_in": 4_812,
        "duration_ms": 81.2,
        "tool": "npm",
        "headers": "host, cookie",
        "secrets": [{"secret": "tracker.token", "kind": "bearer", "source": "stored", "age_s": 1}],
    }
    assert [*record_lines(record)] == [
        "allowed by policy.yaml:6; hint: upload: large",
        f"rule policy.yaml:6, status 200, sent 10 B, received 4.81 kB, took 81.2 ms, looks like npm, {SECRET}",
        "headers: host, cookie",
    ]
    assert [*record_lines({"status": "x", "bytes_in": -1})] == []
