from collections.abc import Callable

import pytest

from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.hostlist import parse_host_list
from agent_sandbox.policy.hostpattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policy.pathpattern import PathKind, parse_path_pattern
from agent_sandbox.policy.rule import Conditions
from agent_sandbox.policytools.neighbours import apart, beside, hosts_apart, meeting
from vectors import each

type PolicyOf = Callable[[str], Policy]

POLICY = """
domains: [a.test, .a.test, "*.b.a.test", c.test]
host_services: {lab: {to: 10.1.0.0/16, ports: [80]}}
"""


def pattern(text: str) -> HostPattern:
    return HostPattern(reach=Reach.NETWORK, name=text) if "/" in text else parse_host_pattern(text)


@each(
    ("host", "expected"),
    [
        ("a.test", [".a.test", "a.test"]),
        ("x.b.a.test", ["*.b.a.test", ".a.test"]),
        ("*.a.test", [".a.test"]),
        ("*.b.a.test", ["*.b.a.test", ".a.test"]),
        ("10.1.0.0/24", ["10.1.0.0/16"]),
        ("10.1.0.1", ["10.1.0.0/16"]),
        ("d.test", []),
    ],
)
def test_rules_that_may_take_in_a_host_are_those_of_it_and_above(
    policy_of: PolicyOf, host: str, expected: list[str]
) -> None:
    assert [
        str(rule.conditions.host) for rule in beside(policy_of(POLICY).index, Conditions(host=pattern(host)))
    ] == expected


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
def test_hosts_are_apart_where_none_can_be_in_both(one: str, other: str, expected: str) -> None:
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
def test_rules_are_apart_where_hosts_ports_schemes_or_methods_prove_it(
    policy_of: PolicyOf, entry: str, expected: str
) -> None:
    rule = "{host: a.test, ports: [443], rules: [{methods: [POST], schemes: [https], path: {exact: /x}}]}"
    (one, other) = policy_of(f"domains:\n  - {rule}\n  - {entry}").rules.rules
    assert apart(one.conditions, other.conditions) == (expected == "apart")


def test_beside_every_name_is_what_speaks_of_every_name(policy_of: PolicyOf) -> None:
    policy = policy_of("allow_all: true\ndomains: ['*', a.test]")
    assert [str(rule.conditions.host) for rule in beside(policy.index, Conditions(host=pattern("*")))] == ["*"]


def test_a_list_of_hosts_may_hold_any_name_and_no_network() -> None:
    listed, _ = parse_host_list("a.test", name="hosts.txt")
    others = [pattern(text) for text in ("a.test", "b.test", ".b.test", "*")]
    assert [hosts_apart(listed, other) for other in others] == [False, True, False, False]
    assert hosts_apart(HostPattern(reach=Reach.NETWORK, name="10.0.0.0/8"), listed)


PATHS = """
domains:
  - host: a.test
    rules:
      - {path: {prefix: /a}}
      - {path: {glob: /a/*/c}}
      - {path: {exact: /b}}
      - {methods: [GET]}
"""


@each(
    ("kind", "path", "wanted"),
    [
        (PathKind.EXACT, "/a/b/c", {5, 6, 8}),
        (PathKind.PREFIX, "/a/b", {5, 8}),
        (PathKind.PREFIX, "/", {8}),
        (PathKind.GLOB, "/a/*/c", {5, 6, 8}),
        (PathKind.GLOB, "/**", {8}),
    ],
)
def test_rules_that_may_take_in_a_path_are_among_those_beside_it(
    policy_of: PolicyOf, kind: PathKind, path: str, wanted: set[int]
) -> None:
    asked = Conditions(host=pattern("a.test"), path=parse_path_pattern(kind, path))
    assert {rule.origin.line for rule in beside(policy_of(PATHS).index, asked)} >= wanted


@pytest.mark.parametrize(("host", "expected"), [("x.test", [2]), (".x.test", [2, 3]), ("y.test", [])])
def test_rules_that_meet_speak_of_some_of_the_same_requests(
    policy_of: PolicyOf, host: str, expected: list[int]
) -> None:
    policy = policy_of("domains:\n  - x.test\n  - '*.b.x.test'\ndeny: [x.test]")
    found = meeting(policy, Conditions(host=pattern(host)), Effect.ALLOW)
    assert [rule.origin.line for rule in found] == expected
