import pytest
from msgspec.structs import replace

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.graphql_operation import (
    ANY_OPERATION,
    Confinement,
    Operation,
    Selection,
    operation_pattern,
    parse_field_name,
)
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
def test_accepts_operations_with_only_listed_fields(operation: Operation) -> None:
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
def test_rejects_and_names_unlisted_fields_and_ambiguous_operations(
    operation: Operation | None, difference: str
) -> None:
    assert not PATTERN.takes(operation)
    assert (difference,) == PATTERN.differences(operation)


def test_a_pattern_is_within_a_pattern_that_lists_the_same_fields_for_each_kind() -> None:
    narrow = operation_pattern({"query": ["viewer"]})
    assert narrow.within(PATTERN)
    assert not PATTERN.within(narrow)
    assert not operation_pattern({"mutation": ["viewer"]}).within(PATTERN)


def test_shows_patterns_and_operations_in_canonical_order() -> None:
    assert str(PATTERN) == "mutation addComment and query repository, viewer"
    assert operation_pattern({"query": ["a", "a"]}) == operation_pattern({"query": ["a"]})
    assert str(asks("query", "b", "a")) == "query a, b"
    assert str(Operation(doubt="no JSON")) == "no JSON"


@each("name", ["", "a b", "1a", "a-b", "é", "a" * 101, "*", "a\n"])
def test_rejects_invalid_field_names(name: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_field_name(name)
    assert raised.value.hint == "use a name from the API's schema, such as `repository`"


def test_accepts_introspection_fields() -> None:
    assert parse_field_name("__schema") == "__schema"


CONFINED = operation_pattern(
    {"query": ["viewer"]}, Confinement(types=(("query", (("viewer", ""),)),), repositories=("o/app",))
)


def test_a_confined_pattern_accepts_operations_within_its_repositories() -> None:
    within = Operation(kind="query", fields=frozenset({"viewer"}), selections=(Selection(name="viewer"),))
    assert CONFINED.takes(within)
    assert CONFINED.takes(ANY_OPERATION)
    assert CONFINED.differences(asks("query", "viewer")) == (
        "graphql an operation with directives, or nested too deeply (beyond the named repositories)",
    )
    assert CONFINED.differences(asks("query", "node")) == ("graphql query node",)
    assert str(CONFINED) == "query viewer in o/app"


def test_a_confined_pattern_is_within_a_plain_list_but_not_the_other_way_round() -> None:
    plain = operation_pattern({"query": ["viewer"]})
    assert (CONFINED.within(plain), plain.within(CONFINED), CONFINED.within(CONFINED)) == (True, False, True)


def test_dumps_a_pattern_as_plain_data() -> None:
    assert PATTERN.written == {"mutation": ["addComment"], "query": ["repository", "viewer"]}
    confined = {"repositories": ["o/app"], "named_by": {}, "types": {"query": {"viewer": ""}}}
    assert CONFINED.written == {"query": ["viewer"], "confined": confined}


WIDE = Confinement(
    types=(("Issue", (("id", ""),)), ("query", (("repository", "Issue"), ("search", "Issue")))),
    scoped=(("repository", ("owner", "name")),),
    searches=(("search", ("query",)),),
    repositories=("o/app", "team/*"),
)


def test_a_confinement_to_more_repositories_is_wider() -> None:
    few = Confinement(types=WIDE.types, scoped=WIDE.scoped, searches=WIDE.searches, repositories=("team/a",))
    assert (few.within(WIDE), WIDE.within(few)) == (True, False)
    assert not few.within(Confinement(types=(), scoped=WIDE.scoped, repositories=("team/a",)))


def test_dumps_a_confinement_with_its_types_and_arguments() -> None:
    assert WIDE.roots == {"query": ("repository", "search")}
    assert WIDE.written == {
        "repositories": ["o/app", "team/*"],
        "named_by": {"repository": ["owner", "name"], "search": ["query"]},
        "types": {name: dict(fields) for name, fields in WIDE.types},
    }


def test_dumps_the_types_whose_ids_are_learned() -> None:
    by_id = replace(WIDE, ids=(("node", ("id",)),), ids_of=("Issue",))
    assert by_id.written["ids_of"] == ["Issue"]
    assert not by_id.within(WIDE)
