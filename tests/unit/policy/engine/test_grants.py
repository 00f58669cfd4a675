import pytest
from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.grants import Asked, AskRules, Grants, is_for_one_request, unasked_body, why_asked
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.settings import Settings
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from policy_texts import PolicyOf, RequestOf
from table_tests import each

HERE = Origin(file="grant", line=1, layer="grant")
GOOD = Conditions(host=parse_host_pattern("a.test"), ports=frozenset({443}), methods=frozenset({"GET"}))


def test_the_first_grant_that_matches_decides(request_of: RequestOf) -> None:
    rules = (Rule(effect=Effect.ALLOW, conditions=GOOD, origin=HERE, reason="once"),)
    grants, request = Grants(rules=rules), request_of("GET https://a.test/x")
    assert grants.verdict(request, readings(request.path)) == rules[0].verdict
    assert grants.verdict(replace(request, method="PUT"), readings(request.path)) is None
    assert grants.for_connect("a.test", 443) == rules[0].verdict
    assert (grants.for_connect("a.test", 80), grants.for_connect("b.test", 443)) == (None, None)


def test_a_grant_without_a_path_is_for_one_request() -> None:
    lasting = replace(GOOD, path=parse_path_pattern(PathKind.GLOB, "/**"))
    rules = [Rule(effect=Effect.ALLOW, conditions=conditions, origin=HERE) for conditions in (GOOD, lasting)]
    assert [*map(is_for_one_request, rules)] == [True, False]


@pytest.mark.parametrize(
    "unfit",
    [
        Rule(effect=Effect.DENY, conditions=GOOD, origin=HERE),
        *(
            Rule(effect=Effect.ALLOW, conditions=replace(GOOD, **wide), origin=HERE)
            for wide in (
                {"host": parse_host_pattern("*.a.test")},
                {"host": parse_host_pattern("localhost")},
                {"host": parse_host_pattern("10.0.0.1")},
                {"ports": None},
                {"methods": None},
                {"inspect": False},
            )
        ),
    ],
)
def test_rejects_grants_that_are_not_for_one_inspected_public_host(unfit: Rule) -> None:
    with pytest.raises(ValueError, match="not a valid grant"):
        Grants(rules=(unfit,))


WRITES, UPLOADS = Settings(ask="unlisted, writes"), Settings(ask="uploads over 9B", ask_uploads=9)
WHOLE, NAMED, SIZED = (
    "{host: a.test}",
    "{host: a.test, rules: [{methods: [POST]}]}",
    "{host: a.test, rules: [{max_body: 99}]}",
)
MCP = "{host: a.test, rules: [{mcp: {tools: [a]}}]}"
GRAPHQL = "{host: a.test, rules: [{graphql: {query: [a]}}]}"


@each(
    ("settings", "rule", "sent", "why"),
    [
        (Settings(ask="unlisted"), WHOLE, ("POST", 99), ""),
        (WRITES, WHOLE, ("GET", 99), ""),
        (WRITES, WHOLE, ("HEAD", 0), ""),
        (WRITES, WHOLE, ("DELETE", 0), "`settings.ask` requires a person to allow DELETE"),
        (WRITES, SIZED, ("POST", 0), "`settings.ask` requires a person to allow POST"),
        (WRITES, NAMED, ("POST", 0), ""),
        (UPLOADS, NAMED, ("POST", 10), "`settings.ask` requires a person to allow a body of 10B"),
        (UPLOADS, NAMED, ("POST", 9), ""),
        (UPLOADS, WHOLE, ("GET", 10), "`settings.ask` requires a person to allow a body of 10B"),
        (UPLOADS, WHOLE, ("PATCH", None), "`settings.ask` requires a person to allow a body of unknown size"),
        (UPLOADS, WHOLE, ("DELETE", None), ""),
        (UPLOADS, SIZED, ("POST", 99), ""),
        (UPLOADS, GRAPHQL, ("POST", None), ""),
        (UPLOADS, MCP, ("POST", None), ""),
        (WRITES, MCP, ("POST", None), ""),
    ],
)
def test_asks_a_person_about_writes_and_uploads_that_the_rule_does_not_name(  # noqa: PLR0917 - a table
    policy_of: PolicyOf, request_of: RequestOf, settings: Settings, rule: str, sent: tuple[str, int | None], why: str
) -> None:
    method, size = sent
    request = replace(request_of(f"{method} https://a.test/"), body_size=size)
    rules = policy_of(f"domains: [{rule}]").rules.rules
    asked = why_asked(settings, request, rules)
    assert (asked or Asked("")) == Asked(why)


@each(("settings", "rule", "most"), [(UPLOADS, WHOLE, 9), (UPLOADS, SIZED, None), (WRITES, WHOLE, None)])
def test_limits_a_body_of_unknown_size_to_the_upload_threshold(
    policy_of: PolicyOf, settings: Settings, rule: str, most: int | None
) -> None:
    assert unasked_body(settings, policy_of(f"domains: [{rule}]").rules.rules) == most


ASKING = """
domains:
  - .a.test
  - {host: .a.test, ports: [8443]}
  - host: a.test
    rules:
      - {methods: [POST], path: {prefix: /admin}, max_body: 10, ask: true, reason: admin}
      - {methods: [GET], path: {exact: /q}, query: {exact: {all: "1"}}, headers: {x-kind: b}, ask: true}
  - {host: b.a.test, ask: true}
  - host: c.a.test
    rules: [{path: {prefix: /s}, transform: {request: {headers: {X: {secret: s, transform: {type: raw}}}}}, ask: true}]
"""


@each(
    ("line", "more", "why"),
    [
        ("POST https://a.test/admin", {}, "policy.yaml:7 requires a person to allow this: admin"),
        ("POST https://a.test/ADMIN/x", {}, "policy.yaml:7 requires a person to allow this: admin"),
        ("POST http://a.test/%61dmin", {}, "policy.yaml:7 requires a person to allow this: admin"),
        ("POST https://a.test/admin;x/y", {}, "policy.yaml:7 requires a person to allow this: admin"),
        ("POST https://a.test:8443/admin", {}, "policy.yaml:7 requires a person to allow this: admin"),
        ("POST https://a.test/admin", {"body_size": 99}, "policy.yaml:7 requires a person to allow this: admin"),
        ("GET https://a.test/admin", {}, ""),
        ("POST https://b.a.test/admin", {}, "policy.yaml:9 requires a person to allow this"),
        ("PROPFIND https://b.a.test:8443/", {}, "policy.yaml:9 requires a person to allow this"),
        ("GET https://c.a.test/s", {"secrets": False}, "policy.yaml:11 requires a person to allow this"),
        (
            "GET https://a.test/q?all=1&z=2",
            {"headers": (("X-Kind", "a"), ("X-Kind", "b"))},
            "policy.yaml:8 requires a person to allow this",
        ),
        ("GET https://a.test/q?all=2", {"headers": (("x-kind", "b"),)}, ""),
    ],
)
def test_another_spelling_of_a_request_does_not_avoid_a_question(
    policy_of: PolicyOf, request_of: RequestOf, line: str, more: dict[str, object], why: str
) -> None:
    request = replace(request_of(line), **more)
    asked = policy_of(ASKING).asking.why_asked(request, readings(request.path))
    assert (asked.reason if asked else "") == why
    assert asked is None or why.startswith(f"{asked.origin} ")


def test_a_grant_answers_only_if_it_names_the_path(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request, asking = request_of("GET https://b.a.test/x"), policy_of(ASKING).asking
    found = {}
    for kind, path in ((PathKind.EXACT, "/x"), (PathKind.GLOB, "/**"), (None, "")):
        pattern = parse_path_pattern(kind, path) if kind else None
        conditions = Conditions(host=parse_host_pattern("b.a.test"), path=pattern)
        grant = Rule(effect=Effect.ALLOW, conditions=conditions, origin=Origin(file="grant", line=1, layer="grant"))
        found[path] = bool(asking.why_asked(request, readings(request.path), (grant,)))
    assert found == {"/x": False, "/**": True, "": True}


@each(
    ("host", "port", "about"),
    [("b.a.test", 443, True), ("b.a.test", 8443, True), ("x.a.test", 443, False), ("a.test", 1, True)],
)
def test_reports_whether_a_rule_that_asks_concerns_a_host_and_port(
    policy_of: PolicyOf, host: str, port: int, *, about: bool
) -> None:
    assert policy_of(ASKING).asking.about(host, port) is about


def test_a_policy_without_rules_that_ask_asks_nothing(policy_of: PolicyOf) -> None:
    assert policy_of("domains: [{host: a.test, ask: false}]").asking == AskRules() == compile_policy([], {}).asking
