from collections.abc import Callable

from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policytools.compare.rule_overlap import Meeting
from table_tests import each

type PolicyOf = Callable[[str], Policy]

POLICY = """
allow_all: true
domains:
  - x.test
  - "*.b.x.test"
  - .x.test
  - {host: a.x.test, rules: [{methods: [PUT]}]}
  - a-x.test
  - 203.0.113.1
  - {host: "*", rules: [{methods: [DELETE]}]}
deny: [x.test]
host_services: {lab: {to: 10.1.0.0/16, ports: [80]}}
"""


def lines(policy: Policy, host: HostPattern, methods: str = "") -> list[int]:
    asked = Conditions(host=host, methods=frozenset(methods.split()) if methods else None)
    return [rule.origin.line for rule in Meeting(policy.index, policy.rules.rules, Effect.ALLOW).of(asked)]


@each(
    ("host", "methods", "expected"),
    [
        ("x.test", "", [4, 6, 10]),
        ("x.test", "GET", [4, 6]),
        ("a.x.test", "", [7, 6, 10]),
        ("*.x.test", "", [5, 6, 7, 10]),
        ("*.x.test", "DELETE", [5, 6, 10]),
        (".x.test", "", [4, 5, 6, 7, 10]),
        ("*.c.b.x.test", "", [5, 6, 10]),
        ("*", "", [4, 5, 6, 7, 8, 10]),
        ("y.test", "", [10]),
        ("203.0.113.1", "", [9]),
        ("10.1.0.0/16", "", [12]),
    ],
)
def test_finds_rules_that_could_match_the_same_requests(
    policy_of: PolicyOf, host: str, methods: str, expected: list[int]
) -> None:
    pattern = HostPattern(reach=Reach.NETWORK, name=host) if "/" in host else parse_host_pattern(host)
    assert lines(policy_of(POLICY), pattern, methods) == expected


def test_a_host_list_overlaps_rules_for_its_hosts_and_wildcards(policy_of: PolicyOf) -> None:
    listed, _ = parse_host_list("x.test\na-x.test", name="hosts.txt")
    assert lines(policy_of(POLICY), listed) == [4, 5, 6, 8, 10]
