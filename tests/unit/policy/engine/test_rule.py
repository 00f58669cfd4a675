from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.policy.decision import Decision, Effect, Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.body_size import Budget, Rate
from agent_sandbox.policy.http.graphql_operation import Operation, operation_pattern
from agent_sandbox.policy.http.headers import header_pattern
from agent_sandbox.policy.http.mcp_message import CALL, McpMessage
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.query import query_pattern
from agent_sandbox.policy.http.request import USUAL_PORTS, Request, Scheme
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.injection import Credential, injection
from agent_sandbox.policy.match.mcp_pattern import mcp_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from table_tests import each

HERE = Origin(file="policy.yaml", line=12, layer="project")
HOST = parse_host_pattern("a.test")
EVERY_CONDITION = Conditions(
    host=HOST,
    ports=frozenset({443, 8443}),
    schemes=frozenset({"https"}),
    methods=frozenset({"GET", "HEAD"}),
    path=parse_path_pattern(PathKind.PREFIX, "/v1"),
    query=query_pattern({"ref": ["main"]}),
    headers=header_pattern({"accept": "x"}),
    max_body=1024,
)
TOKEN = injection([Credential(header="authorization", secret="token")])


def the_rule(conditions: Conditions = EVERY_CONDITION, effect: Effect = Effect.ALLOW, reason: str = "") -> Rule:
    return Rule(effect=effect, conditions=conditions, origin=HERE, reason=reason)


def asked(
    *,
    scheme: Scheme = "https",
    port: int = 443,
    method: str = "GET",
    path: str = "/v1/x",
    query: str = "ref=main",
    accept: str = "x",
    size: int | None = 0,
) -> Request:
    return Request(
        scheme=scheme,
        host="a.test",
        port=port,
        method=method,
        path=path,
        query=query,
        headers=(("accept", accept),),
        body_size=size,
    )


def matches(rule: Rule, request: Request) -> bool:
    return rule.matches(request, readings(request.path))


@each(
    ("request_", "difference"),
    [
        (asked(port=80), "port 80"),
        (asked(scheme="http"), "scheme http"),
        (asked(method="POST"), "method POST"),
        (asked(path="/v2"), "path /v2"),
        (asked(query=""), "query (none)"),
        (asked(query="ref=main&x=1"), "query ref=...&x=..."),
        (asked(accept="y"), "header accept"),
        (asked(size=1025), "a body of 1025B"),
    ],
)
def test_a_rule_does_not_match_if_one_condition_fails_and_names_the_difference(
    request_: Request, difference: str
) -> None:
    rule = the_rule()
    assert not matches(rule, request_)
    assert list(rule.differences(request_, readings(request_.path))) == [difference]


def test_a_rule_that_injects_a_secret_matches_only_requests_that_can_carry_secrets() -> None:
    rule = the_rule(Conditions(host=HOST, inject=TOKEN))
    filled = replace(asked(), secrets=True)
    assert (matches(rule, asked()), matches(rule, filled)) == (False, True)
    assert list(rule.differences(filled, ("/v1",))) == []
    assert list(rule.differences(asked(), ("/v1",))) == ["a request without secret token in authorization"]
    assert str(rule) == "any method a.test with secret token in authorization"


def test_a_rule_without_conditions_matches_every_request_to_its_host() -> None:
    rule = the_rule(Conditions(host=HOST), Effect.DENY)
    request = asked(scheme="http", port=1, method="TRACE", path="/x", query="y")
    assert matches(rule, request)
    assert list(rule.differences(request, readings(request.path))) == []


@pytest.mark.parametrize("path", ["/v1%2Fx", "/v1;a/x"])
def test_an_allow_must_match_every_reading_of_a_path_and_a_deny_any_reading(path: str) -> None:
    conditions = Conditions(host=HOST, path=parse_path_pattern(PathKind.PREFIX, "/v1"))
    answers = {effect: matches(the_rule(conditions, effect), asked(path=path)) for effect in Effect}
    assert answers == {Effect.ALLOW: False, Effect.DENY: True}


@pytest.mark.parametrize("size", [None, 0, 1024])
def test_matches_bodies_of_unknown_size_and_up_to_max_body(size: int | None) -> None:
    assert matches(the_rule(), asked(size=size))


def test_an_additional_header_value_does_not_avoid_a_deny() -> None:
    conditions = Conditions(host=HOST, headers=header_pattern({"accept": "x"}))
    answers = {effect: matches(the_rule(conditions, effect), asked(accept="y, x")) for effect in Effect}
    assert answers == {Effect.ALLOW: False, Effect.DENY: True}


@pytest.mark.parametrize(
    ("effect", "reason", "told"),
    [
        (Effect.ALLOW, "", "allowed by policy.yaml:12"),
        (Effect.DENY, "no uploads", "denied by policy.yaml:12: no uploads"),
    ],
)
def test_a_rule_has_a_verdict_with_origin_reason_and_body_limit(effect: Effect, reason: str, told: str) -> None:
    expected = Decision(effect=effect, rule="policy.yaml:12", origin=HERE, reason=told, max_body=1024)
    assert the_rule(effect=effect, reason=reason).verdict == expected


@each(
    ("conditions", "told"),
    [
        (EVERY_CONDITION, "GET, HEAD https://a.test/v1/...?ref=main on port 443, 8443 with accept: x up to 1KiB"),
        (Conditions(host=HOST), "any method a.test"),
        (Conditions(host=HOST, schemes=frozenset({"https"}), ports=frozenset({443})), "any method https://a.test"),
        (
            Conditions(host=HOST, schemes=frozenset({"http"}), ports=frozenset({443})),
            "any method http://a.test on port 443",
        ),
        (Conditions(host=HOST, ports=USUAL_PORTS, methods=STANDARD), "any method a.test"),
        (Conditions(host=HOST, ask=True), "any method a.test if a person allows it"),
    ],
)
def test_shows_a_rule_as_one_line(conditions: Conditions, told: str) -> None:
    assert str(the_rule(conditions)) == told


def test_only_conditions_on_host_and_port_are_of_the_host_alone() -> None:
    alone = Conditions(host=HOST, ports=frozenset({1}))
    assert (alone.of_the_host_alone, EVERY_CONDITION.of_the_host_alone) == (True, False)


def test_a_condition_beyond_host_port_and_method_makes_a_rule_not_plain() -> None:
    """Also fails for a new condition that `plain` does not consider."""
    graphql = operation_pattern({"query": ["viewer"]})
    mcp = mcp_pattern(["search"], [])
    every = replace(EVERY_CONDITION, graphql=graphql, mcp=mcp, inject=TOKEN, encoded_slash=True, inspect=False)
    every = replace(every, budget=Budget(requests=Rate(1, 60)), ask=True)
    usual, names = Conditions(host=HOST), Conditions.__struct_fields__
    assert [name for name in names if getattr(every, name) == getattr(usual, name)] == ["host"]
    alone: list[dict[str, Any]] = [{name: getattr(every, name)} for name in names]
    assert [name for name, one in zip(names, alone, strict=True) if replace(usual, **one).plain] == [
        "host",
        "ports",
        "methods",
        "encoded_slash",
        "inspect",
        "budget",
    ]


def test_a_rule_copies_ports_methods_and_plain_from_its_conditions() -> None:
    for asked in (Conditions(host=HOST), EVERY_CONDITION):
        rule = the_rule(asked)
        assert (rule.ports, rule.methods, rule.plain) == (asked.ports, asked.methods, asked.plain)


def test_usual_ports_and_standard_methods_mean_any_request() -> None:
    usual = Conditions(host=HOST, ports=USUAL_PORTS, methods=STANDARD)
    assert (usual.of_any_request, EVERY_CONDITION.of_any_request) == (True, False)
    assert [Conditions(host=HOST).takes_port(1), usual.takes_port(1), usual.takes_port(443)] == [True, False, True]


def test_sorts_rules_by_the_most_specific_path_first() -> None:
    paths = [None, (PathKind.PREFIX, "/a"), (PathKind.EXACT, "/a"), (PathKind.PREFIX, "/a/b")]
    rules = [
        the_rule(Conditions(host=HOST, path=None if path is None else parse_path_pattern(*path))) for path in paths
    ]
    ranked = [str(rule) for rule in sorted(rules, key=lambda rule: rule.sort_key)]
    assert ranked == [
        "any method a.test/a",
        "any method a.test/a/b/...",
        "any method a.test/a/...",
        "any method a.test",
    ]


def test_an_allow_with_mcp_matches_only_listed_tools() -> None:
    rule = the_rule(Conditions(host=HOST, mcp=mcp_pattern(["search"], [])))
    deleting = replace(asked(), message=McpMessage(method=CALL, tool="delete"))
    assert matches(rule, replace(asked(), message=McpMessage(method=CALL, tool="search")))
    assert not matches(rule, asked())
    assert not matches(rule, deleting)
    assert list(rule.differences(deleting, ("/v1/x",))) == ["mcp tools/call delete"]
    assert str(rule) == "any method a.test with MCP tools search"
    assert not rule.conditions.of_any_request


def test_an_allow_with_graphql_matches_only_listed_operations() -> None:
    rule = the_rule(Conditions(host=HOST, graphql=operation_pattern({"query": ["viewer"]})))
    reading = Operation(kind="query", fields=frozenset({"viewer"}))
    writing = Operation(kind="mutation", fields=frozenset({"deleteRef"}))
    assert matches(rule, replace(asked(), operation=reading))
    assert not matches(rule, asked())
    assert not matches(rule, replace(asked(), operation=writing))
    assert list(rule.differences(replace(asked(), operation=writing), ("/v1/x",))) == ["graphql mutation deleteRef"]
    assert str(rule) == "any method a.test with GraphQL query viewer"
    assert not rule.conditions.of_any_request
