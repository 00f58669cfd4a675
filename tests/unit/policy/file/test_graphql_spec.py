import pytest

from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policy.http.graphql_operation import operation_pattern
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.problems import UserError
from table_tests import each


def rule(text: str, section: str = "domains") -> str:
    return f"{section}: [{{host: a.test, rules: [{{{text}}}]}}]"


def read(text: str) -> PolicySpec:
    return parse_layer(text, name="project", file="p.yaml", shown="p.yaml", services=()).spec


def problems(text: str) -> list[str]:
    with pytest.raises(UserError) as raised:
        read(text)
    return [str(problem) for problem in raised.value.problems]


def test_a_rule_lists_operations_by_kind() -> None:
    spec = read(rule("methods: [POST], graphql: {query: [viewer, repository], mutation: [addComment]}"))
    graphql = spec.domains[0].rules[0].graphql
    assert graphql is not None
    assert graphql.pattern == operation_pattern({"query": ["repository", "viewer"], "mutation": ["addComment"]})


@each(
    ("text", "expected"),
    [
        ("graphql: {}", "p.yaml:1:44: `graphql` names no operation; write `graphql: {query: [repository]}`"),
        ("graphql: ~", "p.yaml:1:44: nothing stands here; take the key out, or fill it"),
        ("graphql: {query: []}", "p.yaml:1:52: an empty list says nothing; take it out, or fill it"),
        ("graphql: {query: viewer}", "p.yaml:1:52: 'viewer' stands where a list is wanted; write [viewer]"),
        (
            "graphql: {query: ['*']}",
            "p.yaml:1:53: '*' is no name of a field; write one as the API's schema has it: `repository`",
        ),
        (
            "graphql: {subscription: [a]}",
            "p.yaml:1:45: unknown key 'subscription'; known are mutation, query",
        ),
        (
            "methods: [GET, POST], graphql: {query: [a]}",
            "p.yaml:1:44: GraphQL is read in the body of a POST alone; write `methods: [POST]`",
        ),
        (
            "graphql: {query: [a]}, query: {exact: {}}",
            "p.yaml:1:65: a request with a query string is not read as GraphQL; take `query` out",
        ),
    ],
)
def test_what_can_not_be_meant_is_told_where_it_stands(text: str, expected: str) -> None:
    assert expected in problems(rule(text))


def test_a_deny_has_no_graphql() -> None:
    expected = (
        "p.yaml:1:41: a deny has no `graphql`: what an operation does can be asked for in more ways than a list names; "
        "take it out; `graphql` goes with what is allowed, and what it does not list is denied"
    )
    assert problems(rule("graphql: {query: [a]}", "deny")) == [expected]
