import pytest

from agent_sandbox.policy import Cause, Effect, Policy
from agent_sandbox.policytools.explain import explaining
from agent_sandbox.policytools.explain.explaining import Explanation, explain
from agent_sandbox.policytools.explain.remedy import Remedy
from agent_sandbox.policytools.explain.request_line import RequestLine
from policy_texts import PolicyOf
from table_tests import each

POLICY = """
domains:
  - host: api.test
    rules:
      - {methods: [GET], path: {prefix: /v1/}}
      - {methods: [PUT], path: {exact: /v2}, schemes: [https]}
      - {path: {glob: /*/open}}
      - {methods: [PATCH]}
  - "*.wild.test"
  - exact.test
deny:
  - POST https://exact.test/admin
  - "*.exact.test"
"""


def asked(policy: Policy, line: str) -> Explanation:
    method, _, url = line.partition(" ")
    return explain(policy, RequestLine(method=method, url=url), offers=dict)


def near(answer: Explanation) -> list[tuple[int, tuple[str, ...]]]:
    return [(miss.rule.origin.line, miss.differs) for miss in answer.misses]


def test_an_allowed_request_lists_the_deciding_rule_and_other_matching_rules(policy_of: PolicyOf) -> None:
    got = asked(policy_of(POLICY), "GET https://api.test/v1/open")
    assert (got.decision.effect, [rule.origin.line for rule in got.matched]) == (Effect.ALLOW, [7, 5])
    assert (got.misses, got.carets, got.remedy) == ((), "", None)


def test_a_denied_request_lists_the_deny_first_and_then_overruled_allows(policy_of: PolicyOf) -> None:
    got = asked(policy_of(POLICY), "POST https://exact.test/admin")
    assert [(str(rule.effect), rule.origin.line) for rule in got.matched] == [("deny", 12), ("allow", 10)]
    assert (got.misses, got.carets) == ((), "")
    assert got.remedy == Remedy(in_the_way="a deny always wins: remove or narrow the entry at policy.yaml:12")


def test_lists_up_to_three_nearest_rules_nearest_first(policy_of: PolicyOf) -> None:
    got = asked(policy_of(POLICY), "POST https://api.test/v2/x")
    assert got.reason == "host api.test is allowed, path /v2/x is not"
    assert near(got) == [
        (7, ("path /v2/x",)),
        (8, ("method POST",)),
        (6, ("method POST", "path /v2/x")),
    ]
    assert got.carets == "                         ^"
    assert got.misses[2].parts == ("method", "path")


@each(
    ("line", "expected"),
    [
        ("GET https://wild.test/", [(9, ("host wild.test",))]),
        ("GET https://a.exact.test:81/", []),
        ("GET https://b.a.api.test/v1/", [(5, ("host b.a.api.test",)), (7, ("host b.a.api.test", "path /v1/"))]),
        ("GET https://exakt.test/", [(10, ("host exakt.test",))]),
        ("GET https://other.example/", []),
    ],
)
def test_an_unlisted_host_gets_rules_of_its_parent_subdomains_and_similar_names(
    policy_of: PolicyOf, line: str, expected: list[tuple[int, tuple[str, ...]]]
) -> None:
    assert near(asked(policy_of(POLICY), line))[:2] == expected


@each("line", ["GET https://a.test/", "GET https://a.test.test/", "GET https://aa.test/"])
def test_an_allow_that_a_deny_covers_entirely_is_not_a_nearest_rule(policy_of: PolicyOf, line: str) -> None:
    got = asked(policy_of("allow: [GET https://a.test/x]\ndeny: [GET https://a.test/x]"), line)
    assert (got.misses, got.reason.startswith("no rule allows host ")) == ((), True)


def test_marks_an_unlisted_host_with_carets(policy_of: PolicyOf) -> None:
    assert asked(policy_of(POLICY), "GET https://other.example/").carets == "            ^^^^^^^^^^^^^"
    assert asked(policy_of(POLICY), "GET https://b.a.api.test/v1/").carets == "            ^^^"


def test_compares_similar_names_only_up_to_a_limit(policy_of: PolicyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "MAX_COMPARED", 0)
    assert near(asked(policy_of(POLICY), "GET https://exakt.test/")) == []


def test_an_ambiguous_request_is_denied_without_a_remedy(policy_of: PolicyOf) -> None:
    got = asked(policy_of(POLICY), "GET https://api.test/a/../b")
    assert (got.decision.effect, got.decision.cause) == (Effect.DENY, Cause.REQUEST)
    assert got.reason == "ambiguous: the path contains a dot segment"
    assert (got.matched, got.misses, got.remedy) == ((), (), None)


def test_a_policy_that_allows_nothing_yet_gets_a_line_to_add(policy_of: PolicyOf) -> None:
    got = asked(policy_of("version: 1"), "GET https://api.test/")
    assert got.reason == "policy.yaml allows nothing yet"
    assert got.remedy == Remedy(section="allow", line="- GET https://api.test/")


NOTED = """
domains:
  - {host: a.test, inspect: false}
  - {host: b.test, rules: [{methods: [POST], max_body: 1KiB}]}
  - {host: c.test, budget: {requests: 5/min}}
host_services: {ollama: {to: host:11434}}
"""


@each(
    ("line", "notes"),
    [
        ("GET https://a.test/", ("TLS to this host is not inspected: all requests inside pass",)),
        ("GET http://a.test/", ()),
        ("POST https://b.test/", ("the body can have at most 1KiB",)),
        ("GET http://ollama:11434/", ("it leads to host:11434",)),
        ("GET https://b.test/", ()),
        ("GET https://c.test/", ("it counts against the budget at policy.yaml:5: 5 requests per min",)),
    ],
)
def test_an_allowed_request_has_notes_on_passthrough_limits_targets_and_budgets(
    policy_of: PolicyOf, line: str, notes: tuple[str, ...]
) -> None:
    assert asked(policy_of(NOTED), line).notes == notes
