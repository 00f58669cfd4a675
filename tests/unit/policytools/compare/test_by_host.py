from dataclasses import replace

from agent_sandbox.policy import Effect
from agent_sandbox.policy.engine.index import build_index
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policytools.compare.by_host import by_host
from policy_texts import PolicyOf
from table_tests import each

POLICY = """
allow_all: true
domains: [a.test, .a.test, "*.b.a.test", c.test, "*"]
deny: [d.test]
host_services: {lab: {to: 10.1.0.0/16, ports: [80]}}
"""


def pattern(text: str) -> HostPattern:
    return HostPattern(reach=Reach.NETWORK, name=text) if "/" in text else parse_host_pattern(text)


@each(
    ("host", "expected"),
    [
        ("a.test", [".a.test a.test", "*"]),
        ("x.b.a.test", ["*.b.a.test", ".a.test", "*"]),
        ("*.a.test", [".a.test", "*"]),
        ("*.b.a.test", ["*.b.a.test", ".a.test", "*"]),
        ("10.1.0.0/16", ["10.1.0.0/16"]),
        ("10.1.0.0/24", []),
        ("10.1.0.1", ["10.1.0.0/16"]),
        ("d.test", ["*"]),
        ("*", ["*"]),
    ],
)
def test_finds_the_tables_of_a_host_and_of_patterns_that_contain_the_host(
    policy_of: PolicyOf, host: str, expected: list[str]
) -> None:
    tables = by_host(
        policy_of(POLICY).index, Effect.ALLOW, lambda rules: " ".join(str(rule.conditions.host) for rule in rules)
    )
    assert list(tables.taking(pattern(host))) == expected


def test_leaves_out_rules_of_the_other_effect(policy_of: PolicyOf) -> None:
    tables = by_host(policy_of(POLICY).index, Effect.DENY, len)
    assert (list(tables.taking(pattern("d.test"))), list(tables.taking(pattern("a.test")))) == ([1], [])


def test_finds_a_host_list_by_a_host_in_the_list_or_by_the_list_itself(policy_of: PolicyOf) -> None:
    listed, _ = parse_host_list("*.a.test", name="hosts.txt")
    (rule, *_) = policy_of(POLICY).rules.rules
    index = build_index([replace(rule, conditions=Conditions(host=listed))])
    tables = by_host(index, Effect.ALLOW, len)
    asked = (listed, pattern("x.a.test"), pattern("*.a.test"), pattern("b.test"))
    assert [list(tables.taking(host)) for host in asked] == [[1], [1], [], []]
