"""A small world of policies and requests in which much collides: what the laws of the language are tried on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from agent_sandbox.policy import Effect, Layer, Operation, Policy, PolicySpec, Request, compile_policy, decide

type Entry = dict[str, Any]

HOSTS = ("a.test", "b.a.test", "c.b.a.test", "ab.test", "203.0.113.1")
PATTERNS = ("a.test", "*.a.test", ".a.test", ".b.a.test", "b.a.test", "203.0.113.1")
METHODS = ("GET", "HEAD", "POST", "DELETE")
PORTS = (80, 443, 8443)
SEGMENTS = ("a", "b", "ab", "%40", "@", "a;x", "a%2Fb")

paths = st.lists(st.sampled_from(SEGMENTS), max_size=3).map(lambda parts: "/" + "/".join(parts))
queries = st.sampled_from(("", "x=1", "x=1&y=2", "y=2&x=1", "x=2"))
operations = st.one_of(
    st.none(),
    st.builds(
        Operation,
        kind=st.sampled_from(("query", "mutation")),
        fields=st.sets(st.sampled_from("abc"), min_size=1).map(frozenset),
    ),
    st.just(Operation(doubt="no JSON")),
)
requests = st.builds(
    Request,
    scheme=st.sampled_from(("http", "https")),
    host=st.sampled_from(HOSTS),
    port=st.sampled_from(PORTS),
    method=st.sampled_from((*METHODS, "TRACE")),
    path=paths,
    query=queries,
    headers=st.sampled_from(((), (("x", "1"),), (("X", "2"),), (("x", "1"), ("x", "2")))),
    body_size=st.sampled_from((None, 0, 10, 20)),
    operation=operations,
)

plain_paths = st.lists(st.sampled_from(("a", "b", "ab", "@")), max_size=3).map(lambda parts: "/" + "/".join(parts))
globs = st.lists(st.sampled_from(("a", "*", "a*", "**")), max_size=3).map(lambda parts: "/" + "/".join(parts))
path_specs = st.one_of(
    st.fixed_dictionaries({"exact": plain_paths}),
    st.fixed_dictionaries({"prefix": plain_paths}),
    st.fixed_dictionaries({"glob": globs}),
)
query_specs = st.fixed_dictionaries(
    {"exact": st.dictionaries(st.sampled_from("xz"), st.sampled_from("12"), max_size=1)}
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "methods": st.lists(st.sampled_from(METHODS), min_size=1),
        "schemes": st.lists(st.sampled_from(("http", "https")), min_size=1),
        "path": path_specs,
        "query": query_specs,
        "headers": st.sampled_from(({"x": "1"}, {"x": "2"})),
    },
).map(lambda rule: rule or {"schemes": ["http", "https"]})  # a rule has a condition
graphql_specs = st.sampled_from(({"query": ["a"]}, {"query": ["a", "b"]}, {"query": ["a"], "mutation": ["b"]}))


def asking(rule: Entry, graphql: Entry) -> Entry:
    """Return the rule with a condition on GraphQL, which no method but POST and no query string goes with."""
    return {**{key: rule[key] for key in rule if key not in {"methods", "query"}}, "graphql": graphql}


sized_rules = st.builds(
    lambda rule, size: {**rule, **size},
    st.one_of(rules, rules, st.builds(asking, rules, graphql_specs)),
    st.sampled_from(({}, {"max_body": 0}, {"max_body": 9})),
)


def entries_of(rules: st.SearchStrategy[Entry]) -> st.SearchStrategy[Entry]:
    return st.fixed_dictionaries(
        {"host": st.sampled_from(PATTERNS)},
        optional={
            "ports": st.lists(st.sampled_from(PORTS), min_size=1),
            "rules": st.lists(rules, min_size=1, max_size=3),
        },
    )


entries, allows = entries_of(rules), entries_of(sized_rules)
settings = st.fixed_dictionaries(
    {}, optional={"block_status": st.sampled_from((403, 418)), "inspect": st.booleans(), "reload": st.just("watch")}
)
specs = st.fixed_dictionaries(
    {"domains": st.lists(allows, max_size=4), "deny": st.lists(entries, max_size=2)},
    optional={"settings": settings},
)


def layer(spec: Entry) -> Layer:
    return Layer(name="project", file="policy.yaml", spec=PolicySpec.model_validate(spec), lines={})


def policy(*specs: Entry) -> Policy:
    return compile_policy([layer(spec) for spec in specs], {})


def effect(of: Policy, request: Request) -> Effect:
    return decide(of, request).effect


def with_more(spec: Entry, section: str, entry: Entry) -> Policy:
    return policy({**spec, section: [*spec[section], entry]})
