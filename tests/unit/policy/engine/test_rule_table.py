import pytest

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_table import FEW, Rules, rules_of_host
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, parse_path_pattern
from table_tests import each

HOST = parse_host_pattern("a.test")


def the_rule(path: str | None, line: int) -> Rule:
    kind, _, text = (path or "").partition(" ")
    pattern = parse_path_pattern(PathKind(kind), text) if path else None
    origin = Origin(file="policy.yaml", line=line, layer="project")
    return Rule(effect=Effect.ALLOW, conditions=Conditions(host=HOST, path=pattern), origin=origin)


def table(*paths: str | None) -> Rules:
    return rules_of_host([the_rule(path, line) for line, path in enumerate(paths)])


MANY = (
    *(None, "prefix /", "exact /a", "prefix /a", "prefix /a/", "glob /a/*", "glob /**/b", "glob /a/b", "exact /a/b"),
    *("exact /a%40", *(f"exact /{number}" for number in range(FEW))),
)


def test_returns_all_of_a_few_rules_for_any_path() -> None:
    rules = table("exact /a", None)
    assert (rules.about(("/b",)), type(rules)) == (rules, Rules)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/", ["any method a.test", "any method a.test/...", "any method a.test/**/b"]),
        ("/7", ["any method a.test/7"]),
        ("/a/b", ["any method a.test/a/b", "any method a.test/a/*", "any method a.test/a/..."]),
        ("/a%40", ["any method a.test/a%40"]),
    ],
)
def test_selects_rules_by_the_start_of_their_path_when_there_are_many(path: str, told: list[str]) -> None:
    found = [str(rule) for rule in table(*MANY).about(readings(path))]
    assert set(told) <= set(found)
    assert len(found) < len(MANY) - FEW


@each("path", ["/", "/a", "/a/", "/a/b", "/a/b/c", "/x/b", "/a%40", "/a;x=1/b", "/3", "/nobody"])
def test_returns_every_rule_that_matches_the_path_in_the_original_order(path: str) -> None:
    many, ways = table(*MANY), readings(path)
    asked = [rule for rule in many if rule.conditions.path is None or any(map(rule.conditions.path.matches, ways))]
    about = many.about(ways)
    assert [rule for rule in about if rule in asked] == asked
    assert list(about) == [rule for rule in many if rule in about]


def test_finds_a_rule_whose_path_is_partly_case_insensitive_among_many() -> None:
    origin = Origin(file="policy.yaml", line=99, layer="project")
    path = parse_path_pattern(PathKind.PREFIX, "/r/Own/x", any_case=(3, 6))
    rule = Rule(effect=Effect.ALLOW, conditions=Conditions(host=HOST, path=path), origin=origin)
    found = rules_of_host([rule, *table(*MANY)]).about(("/r/OWN/x/y",))
    assert rule in found
    assert rule.matches(asked("/r/OWN/x/y"), ("/r/OWN/x/y",))


def asked(path: str) -> Request:
    return Request(scheme="https", host="a.test", port=443, method="GET", path=path, query="")


def test_returns_a_single_rule_as_a_tuple() -> None:
    (rule,) = table("exact /a")
    assert rules_of_host([rule]) == (rule,)


def test_finds_a_case_insensitive_deny_among_many_rules() -> None:
    origin = Origin(file="policy.yaml", line=99, layer="project")
    path = parse_path_pattern(PathKind.PREFIX, "/r/Own%C3%A9", any_case=WHOLE)
    rule = Rule(effect=Effect.DENY, conditions=Conditions(host=HOST, path=path), origin=origin)
    assert rule in rules_of_host([rule, *table(*MANY)]).about(("/R/oWN%C3%89/x",))
    assert rule not in rules_of_host([rule, *table(*MANY)]).about(("/s",))


def test_finds_the_only_rule_for_a_path_among_many_exact_paths() -> None:
    many = table(*(f"exact /{number}" for number in range(FEW + 1)))
    assert [many.about((path,)) for path in ("/3", "/x")] == [(next(r for r in many if str(r).endswith("/3")),), ()]
