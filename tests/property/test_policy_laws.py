"""The laws of the policy language, on generated policies and requests with few hosts, so that many overlap."""

import math
from random import Random

import pytest
from hypothesis import example, given
from msgspec.structs import replace

from agent_sandbox.policy import Decision, Effect, Policy, Request, awaits_operation, decide, decide_connect
from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.engine import rule_table
from agent_sandbox.policy.engine.dump import dump_rule
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.http.path import readings
from naive_policy import naive_effect
from policy_strategies import (
    PATTERNS,
    TRANSFORM,
    Entry,
    allows,
    effect,
    entries,
    layer,
    orders,
    policy,
    requests,
    specs,
    with_more,
)


@given(requests)
def test_nothing_is_allowed_by_default(request: Request) -> None:
    assert effect(policy(), request) == effect(Policy.deny_all("broken"), request) == Effect.DENY


@given(specs, entries, requests)
def test_adding_a_deny_never_allows(spec: Entry, entry: Entry, request: Request) -> None:
    after = effect(with_more(spec, "deny", entry), request)
    assert after is Effect.DENY or effect(policy(spec), request) is Effect.ALLOW


@given(specs, allows, requests)
def test_adding_an_allow_never_denies_or_lowers_the_body_limit(spec: Entry, entry: Entry, request: Request) -> None:
    before, after = decide(policy(spec), request), decide(with_more(spec, "domains", entry), request)
    assert not before.allowed or after.allowed
    assert not before.allowed or limit(after) >= limit(before)


NOTHING: Entry = {"domains": [], "deny": []}
FILLABLE = Request(scheme="https", host="a.test", port=443, method="GET", path="/a", query="", secrets=True)


def over_https(entry: Entry) -> Entry:
    """Return the entry for https only, because secrets go over nothing else."""
    return {**entry, "rules": [{**rule, "schemes": ["https"]} for rule in entry.get("rules", [{}])]}


def secretive(entry: Entry) -> Entry:
    return {**(over_https(entry) if "rules" in entry else entry), "transform": TRANSFORM}


@given(specs, entries, requests)
@example(NOTHING, {"host": "a.test"}, FILLABLE)
def test_a_rule_with_a_secret_ignores_requests_that_cannot_carry_it(spec: Entry, entry: Entry, asked: Request) -> None:
    without = replace(asked, secrets=False)
    assert effect(with_more(spec, "domains", secretive(entry)), without) is effect(policy(spec), without)


@given(specs, entries, requests)
@example(NOTHING, {"host": "a.test"}, FILLABLE)
@example(NOTHING, {"host": "a.test"}, replace(FILLABLE, scheme="http", port=80))
def test_a_rule_with_a_secret_matches_requests_that_can_carry_it_only_over_https(
    spec: Entry, entry: Entry, asked: Request
) -> None:
    fillable = replace(asked, secrets=True)
    after = effect(with_more(spec, "domains", secretive(entry)), fillable)
    assert after is effect(with_more(spec, "domains", over_https(entry)), fillable)


@given(specs, requests)
@example({"domains": [{"host": "a.test", "transform": TRANSFORM}], "deny": []}, FILLABLE)
def test_being_able_to_carry_a_secret_never_denies_a_request(spec: Entry, asked: Request) -> None:
    with_it, without = (effect(policy(spec), replace(asked, secrets=secrets)) for secrets in (True, False))
    assert with_it is Effect.ALLOW or without is Effect.DENY


@given(specs, entries, requests)
def test_adding_a_graphql_field_to_a_rule_never_denies(spec: Entry, entry: Entry, request: Request) -> None:
    before, after = (
        effect(with_more(spec, "domains", {"host": entry["host"], "rules": [{"graphql": {"query": listed}}]}), request)
        for listed in (["a"], ["a", "b"])
    )
    assert before is Effect.DENY or after is Effect.ALLOW


@given(specs, requests)
def test_awaits_the_operation_of_every_request_that_only_its_operation_allows(spec: Entry, request: Request) -> None:
    of, head = policy(spec), replace(request, operation=None)
    assert effect(of, head) is Effect.ALLOW or awaits_operation(of, head) or effect(of, request) is Effect.DENY


def limit(of: Decision) -> float:
    return math.inf if of.max_body is None else of.max_body


@given(specs, entries, requests)
def test_a_deny_overrides_every_allow(spec: Entry, entry: Entry, request: Request) -> None:
    alone = policy({"domains": [{"host": host} for host in PATTERNS], "deny": [entry]})
    denied = any(
        rule.effect is Effect.DENY and rule.matches(request, readings(request.path)) for rule in here(alone, request)
    )
    assert not denied or effect(with_more(spec, "deny", entry), request) is Effect.DENY


def here(of: Policy, request: Request) -> tuple[Rule, ...]:
    return of.index.rules_for(request.host)


@given(specs, requests, orders)
def test_the_order_of_rules_never_matters(spec: Entry, request: Request, random: Random) -> None:
    shuffled = {section: random.sample(spec[section], len(spec[section])) for section in ("domains", "deny")}
    assert decide(policy(spec), request) == decide(policy({**spec, **shuffled}), request)
    assert policy(spec).digest == policy({**spec, **shuffled}).digest


@given(specs, specs, requests)
def test_the_order_of_layers_never_matters_for_decisions(one: Entry, other: Entry, request: Request) -> None:
    assert decide(policy(one, other), request) == decide(policy(other, one), request)


@given(specs, specs, specs)
def test_merging_is_associative_and_the_empty_rule_set_is_neutral(one: Entry, two: Entry, three: Entry) -> None:
    first, second, third = (expand(layer(spec), {}) for spec in (one, two, three))
    assert (first + second) + third == first + (second + third)
    assert RuleSet() + first == first == first + RuleSet()


@given(specs, requests)
@example(
    {"domains": [{"host": ".a.test"}], "deny": []},
    Request(scheme="https", host="a.test", port=443, method="GET", path="/a%2Fb;x", query=""),
)
def test_the_index_decides_like_a_naive_evaluation_of_all_rules(spec: Entry, request: Request) -> None:
    of = policy(spec)
    assert effect(of, request) is naive_effect([dump_rule(rule) for rule in of.rules.rules], request)


@given(specs, requests)
def test_a_connect_is_allowed_if_a_request_to_its_host_and_port_is(spec: Entry, request: Request) -> None:
    of = policy(spec)
    connect = decide_connect(of, host=request.host, port=request.port).effect
    assert connect is Effect.ALLOW or effect(of, request) is Effect.DENY


@given(specs, requests)
def test_every_decision_has_a_reason_and_every_rule_an_origin(spec: Entry, request: Request) -> None:
    got = decide(policy(spec), request)
    assert got.reason
    assert (got.rule is None) == (got.origin is None)
    assert got.rule is not None or not got.allowed


@given(specs, requests)
def test_a_rule_matches_exactly_if_it_has_no_differences(spec: Entry, request: Request) -> None:
    ways = readings(request.path)
    for rule in here(policy(spec), request):
        assert rule.matches(request, ways) == (list(rule.differences(request, ways)) == [])


@given(specs, requests)
def test_decides_alike_with_and_without_the_table_for_many_rules(spec: Entry, request: Request) -> None:
    few = policy(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule_table, "FEW", 0)
        many = policy(spec)
    assert decide(few, request) == decide(many, request)


@given(specs)
def test_a_dump_that_is_parsed_again_gives_the_same_dump(spec: Entry) -> None:
    dumped = [dump_rule(rule) for rule in policy(spec).rules.rules]
    again = policy(
        {
            "domains": [entry_of(rule) for rule in dumped if rule["effect"] == "allow"],
            "deny": [entry_of(rule) for rule in dumped if rule["effect"] == "deny"],
        }
    )
    assert [dump_rule(rule) for rule in again.rules.rules] == dumped


def entry_of(dumped: Entry) -> Entry:
    """Write a dumped rule as an entry of the language."""
    rule: Entry = {
        key: dumped[key]
        for key in ("methods", "schemes", "path", "headers", "max_body", "graphql", "transform")
        if key in dumped
    }
    if "query" in dumped:
        names = dict.fromkeys(name for name, _ in dumped["query"])
        rule["query"] = {"exact": {name: [value for key, value in dumped["query"] if key == name] for name in names}}
    entry: Entry = {key: dumped[key] for key in ("host", "ports") if key in dumped}
    return {**entry, "rules": [rule]} if rule else entry
