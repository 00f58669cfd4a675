import pytest
from msgspec.structs import replace

from agent_sandbox.policy.decision import Cause, Decision, Effect, Origin
from agent_sandbox.policy.engine import nearest
from agent_sandbox.policy.engine.nearest import (
    beyond_for_port,
    beyond_for_request,
    no_rule_for_host,
    no_rule_for_port,
    no_rule_for_request,
    unshadowed,
)
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.http.graphql_operation import Operation
from agent_sandbox.policy.http.mcp_message import CALL, McpMessage
from agent_sandbox.policy.http.path import readings
from policy_texts import PolicyOf, RequestOf
from table_tests import each

POLICY = """
domains:
  - host: api.test
    rules:
      - {methods: [GET], path: {prefix: /v1/}}
      - {methods: [PUT], path: {exact: /v2}, schemes: [https]}
  - "*.wild.test"
  - exact.test
  - .both.test
deny:
  - deny.test
  - "*.denied.test"
"""


@pytest.mark.parametrize(
    ("line", "reason", "nearest"),
    [
        ("POST https://api.test/v1/x", "method POST is not", "policy.yaml:5 allows GET, HEAD api.test/v1/..."),
        (
            "POST http://api.test/v2",
            "scheme http and method POST are not",
            "policy.yaml:6 allows PUT https://api.test/v2",
        ),
        ("GET https://api.test/v3", "path /v3 is not", "policy.yaml:5 allows GET, HEAD api.test/v1/..."),
    ],
)
def test_a_denial_names_the_nearest_rule_and_what_differed(
    policy_of: PolicyOf, request_of: RequestOf, line: str, reason: str, nearest: str
) -> None:
    request = request_of(line)
    assert no_rule_for_request(request, readings(request.path), policy_of(POLICY).index) == Decision(
        effect=Effect.DENY,
        rule=None,
        origin=None,
        reason=f"host api.test is allowed, {reason}: {nearest}",
        near_miss=nearest,
        cause=Cause.REQUEST,
    )


def test_a_denied_connect_names_the_rule_that_allows_other_ports(policy_of: PolicyOf) -> None:
    got = no_rule_for_port("exact.test", 22, policy_of(POLICY).index.rules_for("exact.test"))
    assert got is not None
    assert got.reason == "host exact.test is allowed, port 22 is not: policy.yaml:8 allows any method exact.test"


def test_a_host_without_an_allow_has_no_nearest_rule(policy_of: PolicyOf, request_of: RequestOf) -> None:
    index = policy_of(POLICY).index
    request = request_of("GET https://deny.test/")
    assert no_rule_for_request(request, ("/",), index) is None
    assert no_rule_for_port("deny.test", 443, index.rules_for("deny.test")) is None


@each(
    ("host", "nearest"),
    [
        ("wild.test", "policy.yaml:7 allows any method *.wild.test"),
        ("a.exact.test", "policy.yaml:8 allows any method exact.test"),
        ("a.b.exact.test", "policy.yaml:8 allows any method exact.test"),
        ("denied.test", ""),
        ("a.deny.test", ""),
        ("evil.test", ""),
    ],
)
def test_an_unlisted_host_gets_the_rule_of_its_parent_or_subdomains_as_nearest(
    policy_of: PolicyOf, host: str, nearest: str
) -> None:
    tail = f": {nearest}" if nearest else ""
    assert no_rule_for_host(policy_of(POLICY).index, host) == Decision(
        effect=Effect.DENY,
        rule=None,
        origin=None,
        reason=f"no rule allows host {host}{tail}",
        near_miss=nearest,
        cause=Cause.HOST,
    )


def test_a_denial_by_a_restriction_names_its_nearest_rule(policy_of: PolicyOf, request_of: RequestOf) -> None:
    origin = Origin(file="team.yaml", line=1, layer="team")
    restriction = Restriction(origin=origin, rules=policy_of("domains: [{host: a.test, ports: [8443]}]").rules.rules)
    narrows = "layer team (team.yaml:1) restricts what all others allow"
    nearest = "policy.yaml:1 allows any method a.test on port 8443"
    told = f"{narrows}: host a.test is allowed, port 443 is not: {nearest}"
    request = request_of("GET https://a.test/")
    expected = Decision(
        effect=Effect.DENY, rule="team.yaml:1", origin=origin, reason=told, near_miss=nearest, cause=Cause.CEILING
    )
    assert beyond_for_request(restriction, request, ("/",)) == beyond_for_port(restriction, "a.test", 443) == expected
    assert beyond_for_port(restriction, "b.test", 443).reason == f"{narrows}: no rule allows host b.test"
    assert beyond_for_request(restriction, request_of("GET https://b.test/"), ("/",)).near_miss == ""


@pytest.mark.parametrize(
    ("line", "cause"), [("POST https://a.test/x", Cause.OPERATION), ("POST http://a.test/x", Cause.REQUEST)]
)
def test_a_denial_for_only_the_graphql_operation_has_the_cause_operation(
    policy_of: PolicyOf, request_of: RequestOf, line: str, cause: Cause
) -> None:
    policy = policy_of("domains: [{host: a.test, rules: [{schemes: [https], graphql: {query: [viewer]}}]}]")
    request = replace(request_of(line), operation=Operation(kind="query", fields=frozenset({"node"})))
    denial = no_rule_for_request(request, readings(request.path), policy.index)
    assert denial is not None
    assert denial.cause is cause
    assert "graphql query node" in denial.reason


def test_a_denial_for_only_the_mcp_tool_has_the_cause_operation(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("domains: [{host: a.test, rules: [{mcp: {tools: [search]}}]}]")
    request = replace(request_of("POST https://a.test/x"), message=McpMessage(method=CALL, tool="delete"))
    denial = no_rule_for_request(request, readings(request.path), policy.index)
    assert denial is not None
    assert denial.cause is Cause.OPERATION
    assert denial.reason == (
        "host a.test is allowed, mcp tools/call delete is not: "
        "policy.yaml:1 allows GET, POST a.test with MCP tools search"
    )


TAKEN_BACK = """
allow: [GET https://a.test/x]
domains: [b.test, "*.c.test", {host: d.test, ports: [8443]}]
deny: [GET https://a.test/x, b.test, "*.c.test", {host: d.test, ports: [8443]}]
"""


def test_an_allow_that_a_deny_covers_entirely_is_never_the_nearest_rule(
    policy_of: PolicyOf, request_of: RequestOf
) -> None:
    index = policy_of(TAKEN_BACK).index
    request = request_of("GET https://a.test/")
    assert no_rule_for_request(request, ("/",), index) is None
    assert no_rule_for_port("d.test", 443, index.rules_for("d.test")) is None
    for host in ("www.b.test", "c.test"):
        assert no_rule_for_host(index, host).reason == f"no rule allows host {host}"


def test_treats_allows_beyond_the_comparison_limit_as_not_covered_by_denies(
    policy_of: PolicyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = "[GET https://a.test/x, GET https://a.test/y]"
    rules = policy_of(f"allow: {both}\ndeny: {both}\n").index.rules_for("a.test")
    allows = [rule for rule in rules if rule.effect is Effect.ALLOW]
    assert list(unshadowed(allows, rules)) == []
    monkeypatch.setattr(nearest, "MAX_PAIRS", 2)
    assert list(unshadowed(allows, rules)) == allows[1:]


def test_compares_rules_for_the_path_first_when_there_are_too_many_rules(
    policy_of: PolicyOf, request_of: RequestOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"  - {{methods: [PUT], path: {{exact: /long/{number}}}}}\n" for number in range(20))
    lines += "  - {methods: [PUT], path: {prefix: /b}}\n"
    index = policy_of(f"domains:\n- host: a.test\n  rules:\n{lines}").index
    monkeypatch.setattr(nearest, "MAX_COMPARED", 2)
    told = [
        no_rule_for_request(request, readings(request.path), index)
        for request in map(request_of, ("GET https://a.test/b/x", "GET https://a.test/none"))
    ]
    assert [denial.near_miss for denial in told if denial] == [
        "policy.yaml:24 allows PUT a.test/b/...",
        "policy.yaml:14 allows PUT a.test/long/10",
    ]


def test_a_rule_without_methods_is_described_as_any_standard_method(policy_of: PolicyOf, request_of: RequestOf) -> None:
    index = policy_of("domains: [a.test]").index
    told = no_rule_for_request(request_of("PROPFIND https://a.test/"), ("/",), index)
    assert told is not None
    assert told.near_miss == "policy.yaml:1 allows any standard method a.test"
