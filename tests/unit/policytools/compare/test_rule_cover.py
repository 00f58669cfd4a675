import pytest

from agent_sandbox.policy import Effect
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from agent_sandbox.policytools.compare import rule_cover
from agent_sandbox.policytools.compare.rule_cover import Wider
from policy_texts import PolicyOf

POLICY = """
domains:
  - host: a.test
    rules:
      - {path: {prefix: /a}}
      - {path: {prefix: /b}}
      - {path: {exact: /a/b}, methods: [POST]}
  - .test.a.test
  - "*.a.test"
deny:
  - host: a.test
    rules: [{path: {prefix: /}}]
"""
ASKED = Conditions(
    host=parse_host_pattern("a.test"),
    ports=frozenset({443}),
    methods=frozenset({"GET"}),
    path=parse_path_pattern(PathKind.EXACT, "/a/b"),
)


@pytest.mark.parametrize(("few", "about"), [(3, [5, 6, 7]), (2, [5, 7])])
def test_preselects_rules_by_path_only_for_a_host_with_many_rules(
    policy_of: PolicyOf, monkeypatch: pytest.MonkeyPatch, few: int, about: list[int]
) -> None:
    monkeypatch.setattr(rule_cover, "FEW", few)
    rules = Wider(policy_of(POLICY).index, Effect.ALLOW)
    assert sorted(rule.origin.line for rule in rules.taking(ASKED)) == about
    assert [rule.origin.line for rule in rules.covering(ASKED)] == [5]


def test_finds_only_rules_of_the_given_effect(policy_of: PolicyOf) -> None:
    assert [rule.origin.line for rule in Wider(policy_of(POLICY).index, Effect.DENY).covering(ASKED)] == [12]
