import pytest
from pydantic import ValidationError

from agent_sandbox.policy.file.graphql_spec import ConfinedGraphqlSpec
from agent_sandbox.policy.http.graphql_operation import Confinement, operation_pattern
from policy_specs import problems, read, rule
from table_tests import each


def test_a_rule_lists_operations_by_kind() -> None:
    spec = read(rule("methods: [POST], graphql: {query: [viewer, repository], mutation: [addComment]}"))
    graphql = spec.domains[0].rules[0].graphql
    assert graphql is not None
    assert graphql.pattern == operation_pattern({"query": ["repository", "viewer"], "mutation": ["addComment"]})


@each(
    ("text", "expected"),
    [
        ("graphql: {}", "p:1:44: `graphql` names no operation; write `graphql: {query: [repository]}`"),
        ("graphql: ~", "p:1:44: no value; remove the key, or give it a value"),
        ("graphql: {query: []}", "p:1:52: empty list; remove it, or add an entry"),
        ("graphql: {query: viewer}", "p:1:52: list expected, not 'viewer'; write [viewer]"),
        (
            "graphql: {query: ['*']}",
            "p:1:53: not a field name: '*'; use a name from the API's schema, such as `repository`",
        ),
        (
            "graphql: {subscription: [a]}",
            "p:1:45: unknown key 'subscription'; known: mutation, query",
        ),
        (
            "methods: [GET, POST], graphql: {query: [a]}",
            "p:1:44: `graphql` works only with POST; write `methods: [POST]`",
        ),
        (
            "graphql: {query: [a]}, query: {exact: {}}",
            "p:1:65: `graphql` never matches a request with a query string; remove `query`",
        ),
    ],
)
def test_reports_an_invalid_graphql_condition_at_its_location(text: str, expected: str) -> None:
    assert expected in problems(rule(text))


def test_rejects_graphql_in_a_deny() -> None:
    expected = (
        "p:1:41: `graphql` is not possible in a deny: other fields than those in a list can have the same effect; "
        "remove it; `graphql` belongs in an entry that allows, and what it does not list is denied"
    )
    assert problems(rule("graphql: {query: [a]}", "deny")) == [expected]


def test_a_confinement_lists_the_fields_of_each_type() -> None:
    spec = ConfinedGraphqlSpec.model_validate(
        {
            "types": {"query": [{"repository": "Repository", "search": "Repository"}], "Repository": ["id", "name"]},
            "scoped": {"repository": ["owner", "name"]},
            "searches": {"search": "query"},
            "ids": {"node": ["id"]},
            "ids_of": ["Repository"],
            "repositories": ["o/b", "o/a"],
        },
        strict=False,
    )
    assert spec.pattern == operation_pattern(
        {"query": ["repository", "search"]},
        Confinement(
            types=(
                ("Repository", (("id", ""), ("name", ""))),
                ("query", (("repository", "Repository"), ("search", "Repository"))),
            ),
            scoped=(("repository", ("owner", "name")),),
            searches=(("search", ("query",)),),
            ids=(("node", ("id",)),),
            ids_of=("Repository",),
            repositories=("o/a", "o/b"),
        ),
    )


def test_rejects_a_field_whose_type_is_not_listed() -> None:
    with pytest.raises(ValidationError, match="unknown type Other"):
        ConfinedGraphqlSpec.model_validate({"types": {"query": [{"a": "Other"}]}, "scoped": {}}, strict=False)
