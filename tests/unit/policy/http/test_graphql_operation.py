import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.graphql_operation import ANY_OPERATION, Operation, operation_pattern, parse_field_name
from table_tests import each

PATTERN = operation_pattern({"query": ["viewer", "repository"], "mutation": ["addComment"]})


def asks(kind: str, *fields: str) -> Operation:
    return Operation(kind=kind, fields=frozenset(fields))


@each(
    "operation",
    [
        asks("query", "viewer"),
        asks("query", "viewer", "repository"),
        asks("query", "__typename", "viewer"),
        asks("mutation", "addComment"),
        ANY_OPERATION,
    ],
)
def test_what_asks_for_listed_fields_alone_is_taken(operation: Operation) -> None:
    assert PATTERN.takes(operation)


@each(
    ("operation", "difference"),
    [
        (asks("query", "viewer", "search", "node"), "graphql query node, search"),
        (asks("query", "addComment"), "graphql query addComment"),
        (asks("mutation", "viewer"), "graphql mutation viewer"),
        (asks("query", "__schema"), "graphql query __schema"),
        (asks("subscription", "__typename"), "graphql subscription __typename"),
        (Operation(doubt="a list of operations"), "ambiguous GraphQL (a list of operations)"),
        (None, "a GraphQL operation that was not read"),
    ],
)
def test_what_goes_beyond_the_list_or_leaves_doubt_is_named(operation: Operation | None, difference: str) -> None:
    assert not PATTERN.takes(operation)
    assert (difference,) == PATTERN.differences(operation)


def test_a_pattern_is_within_one_that_lists_as_much_of_each_kind() -> None:
    narrow = operation_pattern({"query": ["viewer"]})
    assert narrow.within(PATTERN)
    assert not PATTERN.within(narrow)
    assert not operation_pattern({"mutation": ["viewer"]}).within(PATTERN)


def test_a_pattern_and_an_operation_are_told_in_one_spelling() -> None:
    assert str(PATTERN) == "mutation addComment and query repository, viewer"
    assert operation_pattern({"query": ["a", "a"]}) == operation_pattern({"query": ["a"]})
    assert str(asks("query", "b", "a")) == "query a, b"
    assert str(Operation(doubt="no JSON")) == "no JSON"


@each("name", ["", "a b", "1a", "a-b", "é", "a" * 101, "*", "a\n"])
def test_a_field_has_a_name_of_graphql(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_field_name(name)
    assert raised.value.hint == "use a name from the API's schema, such as `repository`"


def test_introspection_can_be_named() -> None:
    assert parse_field_name("__schema") == "__schema"
