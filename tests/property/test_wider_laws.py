"""Searching rules by host and path finds the same rules as comparing all pairs, in the order of the tables."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.policy import Effect
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.index import build_index
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.headers import HeaderPattern
from agent_sandbox.policy.http.query import QueryPattern
from agent_sandbox.policy.match.host_pattern import Reach, parse_host_pattern
from agent_sandbox.policy.match.path_pattern import WHOLE, PathKind, PathPattern, parse_path_pattern
from agent_sandbox.policytools.compare.by_host import by_host
from agent_sandbox.policytools.compare.path_tree import PathTree
from agent_sandbox.policytools.compare.rule_overlap import Meeting, hosts_apart, sets_apart, sets_of
from policy_strategies import Entry, one_of_each, or_none, paths, policy, specs

TEXTS = [
    *((kind, path) for kind in (PathKind.EXACT, PathKind.PREFIX) for path in paths(("a", "A", "%C3%A9"))[::7]),
    *((PathKind.GLOB, path) for path in paths(("a", "A", "*", "a*", "*a", "a*a", "**"))[::5]),
]
QUERIES = [QueryPattern(parameters=(("x", value),)) for value in "12"]
HEADERS = [HeaderPattern(named=named) for named in ((("a", "1"),), (("b", "1"),), (("a", "1"), ("b", "1")))]


def path_of(kind: PathKind, text: str, any_case: tuple[int, int] | None) -> PathPattern:
    part = any_case and any_case != WHOLE and "%" in text
    return parse_path_pattern(kind, text, any_case=None if part else any_case)


def rule_of(conditions: tuple[tuple[PathKind, str], tuple[int, int] | None, QueryPattern, HeaderPattern]) -> Rule:
    (kind, text), any_case, query, headers = conditions
    host = parse_host_pattern("a.test")
    asked = Conditions(host=host, path=path_of(kind, text, any_case), query=query, headers=headers)
    return Rule(effect=Effect.ALLOW, conditions=asked, origin=Origin(file="p.yaml", line=1, layer="project"))


some_rules = st.lists(
    one_of_each(TEXTS, (None, None, (1, 2), WHOLE), or_none(QUERIES), or_none(HEADERS)).map(rule_of), max_size=6
)


@given(some_rules)
def test_the_path_tree_finds_all_rules_that_cover_a_rule(rules: list[Rule]) -> None:
    tree = PathTree(rules)
    for asked in (rule.conditions for rule in rules):
        found = [rule for rule in tree.taking(asked) if covers(rule.conditions, asked)]
        assert [id(rule) for rule in rules if covers(rule.conditions, asked)] == [id(rule) for rule in found]


@given(specs, specs)
def test_the_host_tables_find_all_rules_that_cover_a_rule(spec: Entry, other: Entry) -> None:
    here, rules = policy(spec).rules.rules, policy(other).rules.rules
    index = build_index(here)
    for effect in Effect:
        trees, tables = by_host(index, effect, PathTree), by_host(index, effect, list)
        for asked in (replace(rule.conditions, methods=frozenset({"GET"})) for rule in rules):
            found = [rule for tree in trees.taking(asked.host) for rule in tree.taking(asked)]
            plain = [rule for table in tables.taking(asked.host) for rule in table]
            covering = [rule for rule in here if rule.effect is effect and covers(rule.conditions, asked)]
            assert {*found} >= {*covering}
            assert [rule for rule in plain if rule in covering] == [rule for rule in found if rule in covering]


@given(specs, specs)
def test_meeting_finds_all_rules_that_can_match_the_same_request(spec: Entry, other: Entry) -> None:
    here, rules = policy(spec), policy(other).rules.rules
    for effect in Effect:
        meeting = Meeting(here.index, here.rules.rules, effect)
        for asked in (rule.conditions for rule in rules):
            met = [rule for rule in here.rules.rules if rule.effect is effect and may_meet(rule.conditions, asked)]
            found = list(meeting.of(asked))
            assert {*met} == {*found}
            assert len(met) == len(found)
            assert asked.host.reach is Reach.EXACT or met == found


def may_meet(one: Conditions, other: Conditions) -> bool:
    return not (hosts_apart(one.host, other.host) or sets_apart(sets_of(one), sets_of(other)))
