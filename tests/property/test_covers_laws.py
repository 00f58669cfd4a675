"""The laws of covers: its proofs hold for every request, and a rule with fewer conditions always covers."""

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.policy import Effect, Request
from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.path import readings
from policy_strategies import Entry, allows, layer, requests


def first_rule(entry: Entry) -> Rule:
    return expand(layer({"domains": [entry]}), {}).rules[0]


CONDITIONS = ("ports", "schemes", "methods", "path", "query", "headers", "max_body", "graphql", "inject")
drawn = st.builds(first_rule, allows)


def matches(rule: Rule, effect: Effect, request: Request) -> bool:
    here = rule.conditions.host.matches(request.host)
    return here and dataclasses.replace(rule, effect=effect).matches(request, readings(request.path))


@given(drawn, drawn, st.lists(requests, min_size=10, max_size=10), st.sampled_from(Effect))
def test_a_covering_rule_matches_every_request_of_the_covered_rule(
    wide: Rule, narrow: Rule, asked: list[Request], effect: Effect
) -> None:
    if covers(wide.conditions, narrow.conditions):
        assert all(matches(wide, effect, request) for request in asked if matches(narrow, effect, request))


@given(drawn, st.sets(st.sampled_from(CONDITIONS), max_size=3), st.lists(requests, min_size=10, max_size=10))
def test_a_rule_with_fewer_conditions_covers_the_original_rule(
    rule: Rule, dropped: set[str], asked: list[Request]
) -> None:
    fewer: dict[str, Any] = dict.fromkeys(dropped)
    wide = dataclasses.replace(rule, conditions=replace(rule.conditions, **fewer))
    assert covers(wide.conditions, rule.conditions)
    assert all(matches(wide, Effect.ALLOW, request) for request in asked if matches(rule, Effect.ALLOW, request))


@given(drawn, drawn)
def test_rules_that_cover_each_other_have_equal_ports_max_body_and_query(one: Rule, other: Rule) -> None:
    first: Conditions = one.conditions
    assert covers(first, first)
    if covers(first, other.conditions) and covers(other.conditions, first):
        assert (first.ports, first.max_body, first.query) == (
            other.conditions.ports,
            other.conditions.max_body,
            other.conditions.query,
        )
