import json

import pytest

from agent_sandbox.policy.decision import Cause
from agent_sandbox.policytools.suggest import denials
from agent_sandbox.policytools.suggest.denials import REASONS, WITHOUT_A_RULE, Seen, read_denials, read_traffic
from log_lines import denied
from table_tests import each

NOON = "2026-01-02T12:00:00.000Z"
EARLIER = "2026-01-02T10:00:00.000Z"


def test_counts_requests_that_no_rule_allowed() -> None:
    lines = (denied("GET https://a.test/x", at="12:00:00"), denied("GET https://a.test/x", cause="request"))
    ((request, seen),) = read_denials(lines).requests.items()
    assert (request.method, request.url) == ("GET", "https://a.test/x")
    assert seen == Seen(count=2, first=EARLIER, last=NOON, example="GET a.test/x")


def test_counts_records_of_the_same_request_together() -> None:
    lines = [denied("GET https://a.test/x", at=at, tool=tool) for at, tool in (("12:00:00", ""), ("10:00:00", "pip"))]
    lines += [denied("GET https://a.test/", event="health")] * 2
    assert list(read_denials(lines).requests.values()) == [
        Seen(count=2, first=EARLIER, last=NOON, example="GET a.test/x", tool="pip")
    ]


@each(
    ("line", "why"),
    [
        (denied("GET https://a.test/", cause="rule"), "denied by a rule"),
        (denied("GET https://a.test/", cause="ceiling"), "denied by a restricting layer"),
        (denied("POST https://a.test/", cause="operation"), "GraphQL with fields that no rule lists"),
        (
            denied("GET https://a.test/", cause="injection"),
            "allowed only with a secret that the proxy does not have: see `agent-sandbox secret list`",
        ),
        (denied("GET https://a.test/", cause=""), denials.AMBIGUOUS),
        (denied("GET https://a.test/", cause=["host"]), denials.AMBIGUOUS),
        (denied("GET https://a.test/../b"), denials.AMBIGUOUS),
        (denied("GET https://a.test/b?c"), denials.AMBIGUOUS),
        (denied("get https://a.test/b"), denials.AMBIGUOUS),
        (denied("GET https://a.test/", port=True), denials.AMBIGUOUS),
        (denied("GET https://a.test/", port="443"), denials.AMBIGUOUS),
        (denied("GET https://a.test/", scheme="ftp"), denials.AMBIGUOUS),
        (denied("GET https://a.test/", host={}), denials.AMBIGUOUS),
        (denied("CONNECT https://a.test/", event="connect"), denials.NO_REQUEST),
        (denied("GET https://a.test/", event="malformed"), denials.NO_REQUEST),
    ],
)
def test_counts_other_denials_by_reason(line: str, why: str) -> None:
    found = read_denials([line])
    assert (found.requests, list(found.others)) == ({}, [why])


@each(
    ("line", "example"),
    [
        (denied("CONNECT https://a.test:8443", event="connect", scheme=""), "CONNECT a.test:8443"),
        (denied("CONNECT https://a.test", event="connect", scheme=""), "CONNECT a.test:443"),
        (denied("GET https://a.test:8443/x", cause="rule"), "GET a.test:8443/x"),
        (denied("GET http://a.test/x", cause="rule"), "GET a.test/x"),
        (denied("CONNECT https://x:81", event="connect", host="2001:db8::1"), "CONNECT [2001:db8::1]:81"),
        (denied("GET http://a.test/x", cause="rule", port="80"), "GET a.test/x"),
        (denied("CONNECT https://a.test", event="malformed", host="", method=""), "because"),
    ],
)
def test_an_example_has_the_port_unless_it_is_the_default_of_the_scheme(line: str, example: str) -> None:
    (seen,) = read_denials([line]).others.values()
    assert seen.example == example


ENTRY = "{host: a.test, ports: [443], rules: [{methods: [POST], schemes: [https], path: {exact: '/mcp'}, mcp: {%s}}]}"


@each(
    ("message", "why"),
    [
        (
            "tools/call delete",
            f"MCP that no rule lists; to allow tools/call delete, add `- {ENTRY % 'tools: [delete]'}` under `domains`",
        ),
        (
            "prompts/get",
            f"MCP that no rule lists; to allow prompts/get, add `- {ENTRY % 'methods: [prompts/get]'}` under `domains`",
        ),
        ("tools/call a b", "MCP that no rule lists"),
        ("tools/delete", "MCP that no rule lists"),
        ("ambiguous", "MCP that no rule lists"),
    ],
)
def test_leaves_out_a_denied_tool_call_with_the_line_that_would_allow_the_call(message: str, why: str) -> None:
    assert [*read_denials([denied("POST https://a.test/mcp", cause="operation", mcp=message)]).others] == [why]


def test_suggests_adding_a_denied_tool_call_to_the_list_of_its_host_service() -> None:
    line = denied("POST http://tools:81/mcp", port=81, cause="operation", mcp="tools/call delete")
    why = "MCP that no rule lists; to allow tools/call delete, add it to the list under `host_services`"
    assert [*read_denials([line]).others] == [why]


def test_limits_the_number_of_tools_counted_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "MOST_MESSAGES", 1)
    lines = [denied("POST https://a.test/mcp", cause="operation", mcp=f"tools/call {name}") for name in "abcab"]
    counts = [(why[:47], seen.count) for why, seen in read_denials(lines).others.items()]
    assert counts == [("MCP that no rule lists; to allow tools/call a, ", 2), ("MCP that no rule lists", 3)]


def test_remembers_hosts_that_resolved_to_a_forbidden_address() -> None:
    found = read_denials([denied("GET https://a.test/", cause="address")])
    assert (found.closed, list(found.others)) == ({"a.test"}, [denials.REASONS["address"]])


@pytest.mark.parametrize(
    "line", [denied("GET https://a.test/", event="health"), denied("GET https://a.test/", decision="allow"), "", "\n"]
)
def test_ignores_other_records_and_empty_lines(line: str) -> None:
    assert read_denials([line]) == denials.Denials()


@each("line", ["x", "[]", "{}", "3", "[" * 60_000, '{"port": ' + "9" * 5_000 + "}"])
def test_counts_unreadable_lines(line: str) -> None:
    assert read_denials([line]) == denials.Denials(unreadable=1)


def test_escapes_and_truncates_examples_and_drops_invalid_times() -> None:
    line = denied("GET https://a.test/", cause="", path="/\x1b[31m\n" + "x" * 500, time="now\x1b")
    (seen,) = read_denials([line]).others.values()
    assert seen == Seen(count=1, example=f"GET a.test/\\x1b[31m\\n{'x' * 67}...")
    assert json.dumps(seen.example).isascii()


def test_limits_the_number_of_requests_counted_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "MOST_REQUESTS", 2)
    lines = [denied(f"GET https://a.test/{number}") for number in (1, 2, 3, 1)]
    found = read_denials(lines)
    assert [seen.count for seen in found.requests.values()] == [2, 1]
    assert [(why, seen.count) for why, seen in found.others.items()] == [(denials.TOO_MANY, 1)]
    closed = read_denials([denied(f"GET https://{name}.test/", cause="address") for name in "abc"]).closed
    assert closed == {"a.test", "b.test"}


def test_every_cause_can_be_fixed_by_a_rule_or_has_a_reason() -> None:
    assert {str(cause) for cause in Cause} - WITHOUT_A_RULE - REASONS.keys() == set()


def test_ignores_requests_that_the_proxy_answered_itself() -> None:
    line = denied("POST http://agent-sandbox.internal/sign-commit", cause="")
    assert (read_denials([line]).others, read_denials([line]).requests) == ({}, {})
    allowed = {**json.loads(line), "decision": "allow", "time": NOON}
    assert read_traffic([json.dumps(allowed)], since=EARLIER).allowed == {}
    # The policy decides these.
    for url in ("https://agent-sandbox.internal/", "http://agent-sandbox.internal:81/"):
        assert read_denials([denied(f"POST {url}")]).requests


def test_read_traffic_returns_requests_since_the_given_time() -> None:
    lines = [
        denied("GET https://early.test/", at="09:00:00"),
        denied("GET https://a.test/"),
        denied("GET https://b.test/", decision="allow", rule="policy.yaml:3"),
        denied("GET https://b.test/", decision="allow", rule="policy.yaml:3"),
        denied("GET https://granted.test/", decision="allow", rule="grant:7", cause=""),
        denied("GET https://inside.test/", rule="grant:7", cause="address"),
        denied("GET https://c.test/", cause="rule", rule="policy.yaml:9"),
        denied("GET https://d.test/", decision="allow", event="tunnel"),
        denied("GET https://e.test/ x", decision="allow"),
        denied("GET https://f.test/", time="later"),
        "no json",
    ]
    found = read_traffic(lines, since="2026-01-02T10:00:00.000Z")
    assert [request.host for request in found.requests] == ["a.test", "granted.test"]
    assert {request.host: seen.count for request, seen in found.allowed.items()} == {"b.test": 2}
    assert {request.host: why for request, why in found.refused.items()} == {
        "inside.test": REASONS["address"],
        "c.test": REASONS["rule"],
    }
    assert (found.closed, found.unreadable) == ({"inside.test"}, 1)


def test_limits_the_number_of_allowed_and_refused_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "MOST_REQUESTS", 2)
    for more in ({"decision": "allow", "rule": "policy.yaml:3"}, {"cause": "rule"}):
        found = read_traffic([denied(f"GET https://{name}.test/", **more) for name in "abcda"], since="")
        assert len(found.allowed) + len(found.refused) == 2
