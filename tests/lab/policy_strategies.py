"""Strategies for policies and requests that often collide, for the properties of the policy language."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

from hypothesis import strategies as st

from agent_sandbox.policy import Effect, Layer, Operation, Policy, PolicySpec, Request, compile_policy, decide

type Entry = dict[str, Any]

HOSTS = ("a.test", "b.a.test", "c.b.a.test", "ab.test", "203.0.113.131")
PATTERNS = ("a.test", "*.a.test", ".a.test", ".b.a.test", "b.a.test", "203.0.113.131")
METHODS = ("GET", "HEAD", "POST", "DELETE")
PORTS = (80, 443, 8443)
SEGMENTS = ("a", "A", "b", "ab", "%40", "@", "a;x", "a%2Fb")


def one_of_each(*parts: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw one of each part, all with one number: to Hypothesis each draw is work, and a policy has dozens."""

    def chosen(number: int) -> Iterator[Any]:
        for part in parts:
            number, at = divmod(number, len(part))
            yield part[at]

    return st.integers(0, math.prod(map(len, parts)) - 1).map(lambda number: tuple(chosen(number)))


def some(of: Sequence[str | int]) -> list[list[Any]]:
    """Return every choice of one or more, the wide ones as often as the narrow."""
    by_size = [[list(chosen) for chosen in combinations(of, size + 1)] for size in range(len(of))]
    return [chosen for choices in by_size for chosen in choices * (6 // len(choices))]


def or_none(of: Sequence[Any]) -> list[Any]:
    """Return all of these, and None twice as often as all together: rules with few conditions match more."""
    return [*of, *[None] * 2 * len(of)]


def paths(segments: Sequence[str]) -> list[str]:
    """Return the paths of up to three segments: the shorter, the more often, since those meet."""
    lengths = [["/" + "/".join(chosen) for chosen in product(segments, repeat=count)] for count in range(4)]
    return [path for count, of in enumerate(lengths) for path in of * ((4 - count) * len(lengths[-1]) // len(of))]


OPERATIONS = [Operation(kind=kind, fields=frozenset(of)) for kind in ("query", "mutation") for of in some("abc")]
requests = st.builds(
    lambda where, what, operation: Request(
        **dict(zip(("scheme", "host", "port", "method", "headers", "secrets"), where, strict=True)),
        **dict(zip(("path", "query", "body_size"), what, strict=True)),
        operation=operation,
    ),
    one_of_each(
        ("http", "https"),
        HOSTS,
        PORTS,
        (*METHODS, "TRACE"),
        ((), (("x", "1"),), (("X", "2"),), (("x", "1"), ("x", "2"))),
        (False, True),
    ),
    one_of_each(paths(SEGMENTS), ("", "x=1", "x=1&y=2", "y=2&x=1", "x=2"), (None, 0, 10, 20)),
    st.sampled_from([*or_none(OPERATIONS), *[Operation(doubt="no JSON")] * len(OPERATIONS)]),
)

PLAIN, GLOBS = paths(("a", "b", "ab", "@")), paths(("a", "*", "a*", "**"))
PATH_SPECS = [{kind: path} for kind, of in (("exact", PLAIN), ("prefix", PLAIN), ("glob", GLOBS)) for path in of]
QUERY_SPECS = [{"exact": exact} for exact in ({}, {"x": "1"}, {"x": "2"}, {"z": "1"}, {"z": "2"})]
GRAPHQL_SPECS = ({"query": ["a"]}, {"query": ["a", "b"]}, {"query": ["a"], "mutation": ["b"]})
# Always the same: different ones may not meet.
TRANSFORM = {"request": {"headers": {"x-key": {"secret": "key", "transform": {"type": "bearer"}}}}}
BESIDE: tuple[Entry, ...] = ({}, {}, {"max_body": 0}, {"max_body": 9}, {"transform": TRANSFORM})


ANYTHING: Entry = {"schemes": ["http", "https"]}


def rule_of(path: Entry | None, conditions: tuple[Any, ...]) -> Entry:
    """Return a rule with these conditions, of which there is at least one."""
    keyed = zip(("path", "methods", "schemes", "query", "headers"), (path, *conditions), strict=True)
    return {key: asked for key, asked in keyed if asked is not None} or ANYTHING


def sized_rule_of(rule: Entry, beside: tuple[Any, ...]) -> Entry:
    """Return the rule with a size or a secret, and with GraphQL: not every other condition goes with these."""
    graphql, more = beside
    without = {"schemes"} if "transform" in more else set()
    without |= {"methods", "query"} if graphql else set()
    asked = {**({"graphql": graphql} if graphql else {}), **more}
    return {**{key: rule[key] for key in rule if key not in without}, **asked}


rules = st.builds(
    rule_of,
    st.sampled_from(or_none(PATH_SPECS)),
    one_of_each(
        or_none(some(METHODS)),
        or_none(some(("http", "https"))),
        or_none(QUERY_SPECS),
        or_none(({"x": "1"}, {"x": "2"})),
    ),
)
sized_rules = st.builds(sized_rule_of, rules, one_of_each((*GRAPHQL_SPECS, *[None] * 6), BESIDE))


def entry_of(where: tuple[Any, ...], rules: list[Entry]) -> Entry:
    """Return an entry: a host, of some ports or of all, with rules or with none."""
    host, ports = where
    return {"host": host, **({"ports": ports} if ports else {}), **({"rules": rules} if rules else {})}


def entries_of(rules: st.SearchStrategy[Entry]) -> st.SearchStrategy[Entry]:
    return st.builds(
        entry_of, one_of_each(PATTERNS, or_none(some(PORTS))), st.one_of(st.just([]), st.lists(rules, max_size=3))
    )


def spec_of(domains: list[Entry], deny: list[Entry], settings: tuple[Any, ...]) -> Entry:
    """Return a policy as a value, with these settings."""
    said = dict(zip(("block_status", "inspect", "reload"), settings, strict=True))
    kept = {key: value for key, value in said.items() if value is not None}
    return {"domains": domains, "deny": deny, **({"settings": kept} if kept else {})}


entries, allows = entries_of(rules), entries_of(sized_rules)
specs = st.builds(
    spec_of,
    st.lists(allows, max_size=4),
    st.lists(entries, max_size=2),
    one_of_each(or_none((403, 418)), or_none((False, True)), or_none(("watch",))),
)


def tightened(spec: Entry, *, tighten: bool = True) -> Entry:
    """Return the policy as a layer that restricts, which may not inject."""
    without = [
        {
            **entry,
            "rules": [{key: rule[key] for key in rule if key != "transform"} or ANYTHING for rule in entry["rules"]],
        }
        if "rules" in entry
        else entry
        for entry in spec["domains"]
    ]
    return {**spec, "domains": without, "tighten": True} if tighten else {**spec, "tighten": False}


# One number for a whole order, where Hypothesis's own `randoms` draws for each place.
orders = st.integers(0, 9999).map(Random)


def layer(spec: Entry) -> Layer:
    return Layer(name="project", file="policy.yaml", spec=PolicySpec.model_validate(spec), lines={})


def policy(*specs: Entry) -> Policy:
    return compile_policy([layer(spec) for spec in specs], {})


def effect(of: Policy, request: Request) -> Effect:
    return decide(of, request).effect


def with_more(spec: Entry, section: str, entry: Entry) -> Policy:
    return policy({**spec, section: [*spec[section], entry]})
