from collections.abc import Callable

from agent_sandbox.policy import Policy
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policytools.compare.disjoint import apart, hosts_apart
from table_tests import each

type PolicyOf = Callable[[str], Policy]


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
        ("{host: b.test, rules: [{methods: [POST]}]}", "apart"),
        ("{host: a.test, rules: [{methods: [PUT]}]}", "apart"),
        ("{host: a.test, rules: [{schemes: [http]}]}", "apart"),
        ("{host: a.test, ports: [8443]}", "apart"),
        ("{host: a.test, rules: [{path: {exact: /other}}]}", "together"),
    ],
)
def test_rules_are_disjoint_by_hosts_ports_schemes_or_methods(policy_of: PolicyOf, entry: str, expected: str) -> None:
    rule = "{host: a.test, ports: [443], rules: [{methods: [POST], schemes: [https], path: {exact: /x}}]}"
    (one, other) = policy_of(f"domains:\n  - {rule}\n  - {entry}").rules.rules
    assert apart(one.conditions, other.conditions) == (expected == "apart")


def test_a_host_list_is_disjoint_from_unlisted_hosts_and_networks_but_not_wildcards() -> None:
    listed, _ = parse_host_list("a.test", name="hosts.txt")
    others = [pattern(text) for text in ("a.test", "b.test", ".b.test", "*")]
    assert [hosts_apart(listed, other) for other in others] == [False, True, False, False]
    assert hosts_apart(HostPattern(reach=Reach.NETWORK, name="10.0.0.0/8"), listed)
