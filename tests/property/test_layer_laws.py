"""The laws of layers: a restricting layer only narrows, in any position; replacing never removes a deny."""

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.policy import Cause, Decision, Effect, Layer, Policy, Request, compile_policy, decide, decide_connect
from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.engine.dump import dump_rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.match.host_list import parse_host_list
from naive_policy import NaiveLayer, naive_effect_of_layers
from policy_strategies import Entry, effect, entries, layer, one_of_each, orders, requests, specs, tightened


def replacing(spec: Entry, chosen: frozenset[int]) -> Entry:
    """Let some entries replace those of lower layers."""
    domains = [
        {**entry, "merge_mode": "replace"} if number in chosen else entry
        for number, entry in enumerate(spec["domains"])
    ]
    return {**spec, "domains": domains}


replacing_specs = st.builds(replacing, specs, st.frozensets(st.integers(0, 3)))
ordinary = st.builds(layer, specs)
narrowing = st.builds(lambda spec: layer(tightened(spec)), specs)
any_layer = st.one_of(st.builds(layer, replacing_specs), narrowing)
several = st.lists(ordinary, max_size=3)


def together(*layers: Layer) -> Policy:
    return compile_policy(layers, {})


def passes(of: Policy, request: Request) -> tuple[Effect, float]:
    return decide(of, request).effect, limit(decide(of, request))


def limit(of: Decision) -> float:
    return math.inf if of.max_body is None else of.max_body


@given(several, narrowing, requests)
def test_a_restricting_layer_only_narrows(layers: list[Layer], tight: Layer, request: Request) -> None:
    before, after = together(*layers), together(*layers, tight)
    assert effect(before, request) is Effect.ALLOW or effect(after, request) is Effect.DENY
    assert effect(after, request) is Effect.DENY or limit(decide(after, request)) <= limit(decide(before, request))
    assert before.passthrough(request.host, request.port) or not after.passthrough(request.host, request.port)
    first, then = (decide_connect(of, host=request.host, port=request.port) for of in (before, after))
    assert first.allowed or not then.allowed


@given(several, narrowing, requests)
def test_allows_what_both_the_other_layers_and_the_restricting_layer_allow(
    layers: list[Layer], tight: Layer, request: Request
) -> None:
    def without(section: str) -> Policy:
        spec = tight.spec.model_copy(update={"tighten": False, section: ()})
        return together(*(layers if section == "domains" else ()), replace(tight, spec=spec))

    # Its `domains` are set, even if to an empty list: the layer restricts.
    within = effect(without("deny"), request) is Effect.ALLOW
    expected = effect(without("domains"), request) is Effect.ALLOW and within
    assert (effect(together(*layers, tight), request) is Effect.ALLOW) == expected


@given(several, narrowing, narrowing, requests, orders)
def test_the_position_of_a_restricting_layer_never_matters(
    layers: list[Layer], one: Layer, other: Layer, request: Request, random: Random
) -> None:
    every = [*layers, one, other]
    assert passes(together(*every), request) == passes(together(*random.sample(every, len(every))), request)


@given(narrowing, requests)
def test_a_restricting_layer_alone_allows_nothing(tight: Layer, request: Request) -> None:
    assert effect(together(tight), request) is Effect.DENY


@given(several, entries, narrowing, requests)
def test_a_denial_by_a_restriction_names_its_layer(
    layers: list[Layer], entry: Entry, tight: Layer, request: Request
) -> None:
    team = replace(tight, name="team", file="team.yaml")
    got = decide(together(*layers, layer({"domains": [entry]}), team), request)
    assert got.cause is not Cause.CEILING or (got.origin is not None and got.origin.layer == "team")


@given(any_layer, any_layer, any_layer)
def test_merging_is_associative_with_restrictions_and_replacements(one: Layer, two: Layer, three: Layer) -> None:
    first, second, third = (expand(layer, {}) for layer in (one, two, three))
    assert (first + second) + third == first + (second + third)
    assert RuleSet() + first == first == first + RuleSet()


@given(several, replacing_specs, requests)
def test_merge_mode_replace_only_narrows_and_keeps_every_deny(
    layers: list[Layer], spec: Entry, request: Request
) -> None:
    plain = {**spec, "domains": [{**entry} for entry in spec["domains"]]}
    for entry in plain["domains"]:
        entry.pop("merge_mode", None)
    adding, instead = together(*layers, layer(plain)), together(*layers, layer(spec))
    assert effect(adding, request) is Effect.ALLOW or effect(instead, request) is Effect.DENY
    denies = [rule for rule in adding.rules.rules if rule.effect is Effect.DENY]
    assert denies == [rule for rule in instead.rules.rules if rule.effect is Effect.DENY]


@given(several, replacing_specs, requests)
def test_only_the_highest_layer_has_allows_for_a_replaced_host(
    layers: list[Layer], spec: Entry, request: Request
) -> None:
    hosts = {entry["host"] for entry in spec["domains"] if "merge_mode" in entry}
    of = together(*layers, replace(layer(spec), name="top"))
    allows = [rule for rule in of.index.rules_for(request.host) if rule.effect is Effect.ALLOW]
    lower = {str(rule.conditions.host) for rule in allows if rule.origin.layer != "top"}
    assert not lower & hosts


UPSTREAM = {"upstream": {"proxy": "http://proxy.corp.example:3128", "no_proxy": [".near.example"]}}


@given(specs, st.booleans(), requests)
def test_an_upstream_proxy_changes_no_decision(spec: Entry, tighten: bool, request: Request) -> None:  # noqa: FBT001 - drawn
    plain = tightened(spec, tighten=tighten)
    before = together(layer(plain))
    after = together(layer({**plain, "settings": {**plain.get("settings", {}), **UPSTREAM}}))
    assert decide(after, request) == decide(before, request)
    host, port = request.host, request.port
    assert decide_connect(after, host=host, port=port) == decide_connect(before, host=host, port=port)
    assert after.passthrough(host, port) == before.passthrough(host, port)
    assert (before.upstream_proxy(host), after.upstream_proxy("x.near.example")) == (None, None)
    assert str(after.upstream_proxy(host)) == "http://proxy.corp.example:3128"


def listing(of: Layer, hosts: list[str]) -> Layer:
    """Add a host list to a layer."""
    listed, invalid = parse_host_list("\n".join(hosts), name="hosts.txt")
    assert invalid == []
    spec = of.spec.model_copy(update={"domains_file": "hosts.txt"})
    return replace(of, spec=spec, listed=listed)


def naive(of: Layer) -> NaiveLayer:
    """Return the separate rules of a layer, with the hosts of its host list."""
    tighten = of.spec.tighten
    plain = replace(of, spec=of.spec.model_copy(update={"tighten": False}))
    replaced = frozenset(str(entry.host) for entry in of.spec.domains if entry.merge_mode)
    rules = [dump_rule(rule) for rule in expand(plain, {}).rules]
    return NaiveLayer(rules=rules, tighten=tighten, replaced=replaced)


# Few hosts and few conditions: layers affect each other only where their rules overlap.
NEAR = ("a.test", "*.a.test", ".a.test", "b.a.test", "*.b.a.test")
ONE_METHOD = [{"rules": [{"methods": [method]}]} for method in ("GET", "POST")]
near_entries = one_of_each(NEAR, ({}, *ONE_METHOD), ({}, {"merge_mode": "replace"})).map(
    lambda parts: {"host": parts[0], **parts[1], **parts[2]}
)
near_requests = one_of_each(("a.test", "b.a.test", "c.b.a.test"), ("GET", "POST"), (443, 443, 8443)).map(
    lambda parts: Request(scheme="https", host=parts[0], port=parts[2], method=parts[1], path="/", query="")
)


def near_layer(domains: list[Entry], deny: list[str], tighten: bool) -> Layer:  # noqa: FBT001 - as it is drawn
    kept = [{key: entry[key] for key in entry if key != "merge_mode" or not tighten} for entry in domains]
    return layer({"domains": kept, "deny": [{"host": host} for host in deny], "tighten": tighten})


near_layers = st.builds(
    near_layer,
    st.lists(near_entries, min_size=1, max_size=2),
    st.one_of(st.just([]), st.just([]), st.lists(st.sampled_from(NEAR), max_size=1)),
    st.sampled_from((False, False, False, True)),
)
lists = st.lists(st.sampled_from(NEAR), min_size=1, max_size=2)
layers_and_lists = st.lists(st.tuples(near_layers, st.one_of(st.none(), st.none(), lists)), min_size=1, max_size=3)


@given(layers_and_lists, near_requests)
def test_layers_with_host_lists_decide_like_a_naive_evaluation(
    written: list[tuple[Layer, list[str] | None]], request: Request
) -> None:
    layers = [of if hosts is None else listing(of, hosts) for of, hosts in written]
    told = [naive(of) for of in layers]
    for of, (_, hosts) in zip(told, written, strict=True):
        for rule in of.rules:
            if "hosts.txt" in rule["host"]:
                rule["listed"] = hosts
    assert effect(together(*layers), request) is naive_effect_of_layers(told, request)
