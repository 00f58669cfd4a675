from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policytools.compare.rule_overlap import Meeting, hosts_apart, sets_apart, sets_of
from policy_texts import PolicyOf
from table_tests import each

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
    assert lines(policy_of(POLICY), pattern(host), methods) == expected


def test_a_host_list_overlaps_rules_for_its_hosts_and_wildcards(policy_of: PolicyOf) -> None:
    listed, _ = parse_host_list("x.test\na-x.test", name="hosts.txt")
    assert lines(policy_of(POLICY), listed) == [4, 5, 6, 8, 10]


def pattern(text: str) -> HostPattern:
    return HostPattern(reach=Reach.NETWORK, name=text) if "/" in text else parse_host_pattern(text)


@each(
    ("one", "other", "expected"),
    [
        ("a.test", "a.test", "together"),
        ("a.test", "b.test", "apart"),
        ("a.test", ".a.test", "together"),
        ("a.test", "*.a.test", "apart"),
        ("*.a.test", ".b.a.test", "together"),
        ("*.a.test", "*.b.test", "apart"),
        ("10.0.0.1", "10.0.0.0/8", "together"),
        ("*.a.test", "10.0.0.0/8", "apart"),
        ("*", "10.0.0.0/8", "apart"),
        ("*", "10.0.0.1", "apart"),
        ("*", "*.a.test", "together"),
        ("a.test", "*", "together"),
        ("10.0.0.0/8", "10.1.0.0/16", "together"),
    ],
)
def test_host_patterns_are_disjoint_if_no_host_matches_both(one: str, other: str, expected: str) -> None:
    assert (
        hosts_apart(pattern(one), pattern(other)) == hosts_apart(pattern(other), pattern(one)) == (expected == "apart")
    )


@each(
    ("entry", "expected"),
    [
        ("{host: a.test, rules: [{methods: [POST]}]}", "together"),
        ("{host: a.test, rules: [{methods: [PUT]}]}", "apart"),
        ("{host: a.test, rules: [{schemes: [http]}]}", "apart"),
        ("{host: a.test, ports: [8443]}", "apart"),
        ("{host: a.test, rules: [{path: {exact: /other}}]}", "together"),
    ],
)
def test_rules_are_disjoint_by_ports_schemes_or_methods(policy_of: PolicyOf, entry: str, expected: str) -> None:
    rule = "{host: a.test, ports: [443], rules: [{methods: [POST], schemes: [https], path: {exact: /x}}]}"
    (one, other) = policy_of(f"domains:\n  - {rule}\n  - {entry}").rules.rules
    assert sets_apart(sets_of(one.conditions), sets_of(other.conditions)) == (expected == "apart")


def test_a_host_list_is_disjoint_from_unlisted_hosts_and_networks_but_not_wildcards() -> None:
    listed, _ = parse_host_list("a.test", name="hosts.txt")
    others = [pattern(text) for text in ("a.test", "b.test", ".b.test", "*")]
    assert [hosts_apart(listed, other) for other in others] == [False, True, False, False]
    assert hosts_apart(HostPattern(reach=Reach.NETWORK, name="10.0.0.0/8"), listed)
