import pytest

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.graphql_document import MAX_DEPTH, MAX_LENGTH, MAX_SELECTIONS, operation_of
from agent_sandbox.policy.http.graphql_operation import Selection
from table_tests import each


@each(
    ("document", "expected"),
    [
        ("{ viewer { login } }", "query viewer"),
        ("query { a b c }", "query a, b, c"),
        ("mutation M($x: Int) { harmless: deleteRepository(id: $x) { id } }", "mutation deleteRepository"),
        ("subscription { issueChanged { id } }", "subscription issueChanged"),
        ("{ ... { a ... on Query { b } } ...F } fragment F on Query { c ...F }", "query a, b, c"),
        ("{ ...F ...F } fragment F on Query { a ...G } fragment G on Query { b ...F }", "query a, b"),
        ("{ a { deleteRepository node @include(if: true) { id } } }", "query a"),
        ('{ a(b: "} mutation { c }") { d } } # } mutation { e }\n', "query a"),
        ('{ a(b: """\n} mutation { c } \\""" {\n""") { d } }', "query a"),
        ("{,,a,,b,,}", "query a, b"),
        ("{ __typename __schema { types { name } } }", "query __schema, __typename"),
    ],
)
def test_finds_top_level_fields_in_any_syntax(document: str, expected: str) -> None:
    assert str(operation_of(document, None)) == expected


def test_selects_the_named_operation_of_several() -> None:
    document = "query A { a } mutation B { b } { c }"
    assert [str(operation_of(document, name)) for name in ("A", "B")] == ["query a", "mutation b"]


NO_GRAPHQL = "a document that is not GraphQL, or too deep or too long"


@each(
    ("document", "name", "doubt"),
    [
        ("", None, NO_GRAPHQL),
        ("{", None, NO_GRAPHQL),
        ("{ a } }", None, NO_GRAPHQL),
        ("query A { a } query A { b }", "A", "not exactly one selected operation"),
        ("query A { a } query B { b }", None, "not exactly one selected operation"),
        ("query A { a }", "B", "not exactly one selected operation"),
        ("{ a }", "A", "not exactly one selected operation"),
        ("fragment F on Query { a }", None, "not exactly one selected operation"),
        ("{ ...F }", None, "an undefined fragment"),
        ("{ ...F } fragment F on Query { ...F }", None, "an operation without fields"),
        ("{ a @skip(if: true) }", None, "a directive at the top of the operation"),
        ("query @x { a }", None, "a directive at the top of the operation"),
        ("{ ... @include(if: false) { a } }", None, "a directive at the top of the operation"),
        ("{ ...F @defer } fragment F on Query { a }", None, "a directive at the top of the operation"),
        ("{ ...F } fragment F on Query @x { a }", None, "a directive at the top of the operation"),
        (
            "{ ...F } fragment F on Query { a } fragment F on Query { b }",
            None,
            "a document with a duplicate fragment, or with other definitions than operations and fragments",
        ),
        (
            "{ a } type Query { a: Int }",
            None,
            "a document with a duplicate fragment, or with other definitions than operations and fragments",
        ),
        ("{ a(b: 'c') }", None, NO_GRAPHQL),
        ("\ufeff{ a }", None, "a document with non-ASCII characters: put values into `variables`"),
        ("{ a } # \u2028 mutation", None, "a document with non-ASCII characters: put values into `variables`"),
        ("{ a\x0b }", None, "a document with non-ASCII characters: put values into `variables`"),
        ("{ a\0 }", None, "a document with non-ASCII characters: put values into `variables`"),
        ("{ " + "a " * 2000 + "}", None, NO_GRAPHQL),
        ("{ a(b: " + "[" * 1500 + ") }", None, NO_GRAPHQL),
        ("{ a " * 900 + "}" * 900, None, NO_GRAPHQL),
        ("#\n" * 4000 + "{ a }", None, NO_GRAPHQL),
        (" " * MAX_LENGTH + "{ a }", None, f"a document of more than {MAX_LENGTH} characters"),
    ],
)
def test_rejects_ambiguous_documents(document: str, name: str | None, doubt: str) -> None:
    with pytest.raises(Ambiguous) as raised:
        operation_of(document, name)
    assert doubt == str(raised.value)


def arguments_of(document: str, **variables: object) -> tuple[tuple[str, str | None], ...]:
    selections = operation_of(document, None, variables).selections
    assert selections
    return selections[0].arguments


@each(
    ("document", "variables", "arguments"),
    [
        ('{ a(x: "y") }', {}, (("x", "y"),)),
        ("{ a(x: 1, y: Z, z: [$v]) }", {"v": "w"}, (("x", None), ("y", None), ("z", None))),
        ("query($v: String) { a(x: $v) }", {"v": "w"}, (("x", "w"),)),
        ("query($v: String) { a(x: $v) }", {"v": 1}, (("x", None),)),
        ("query($v: String) { a(x: $v) }", {}, (("x", None),)),
        ('query($v: String = "w") { a(x: $v) }', {}, (("x", "w"),)),
        ('query($v: String = "w") { a(x: $v) }', {"v": "other"}, (("x", "other"),)),
        ('query($v: String = "w") { a(x: $v) }', {"v": None}, (("x", None),)),
        ('query($v: String = "w", $v: String = "other") { a(x: $v) }', {}, (("x", None),)),
        ("{ a(x: $v) }", {"v": "w"}, (("x", None),)),
        ('{ a(x: "y", x: "z") }', {}, (("x", None),)),
        ('{ a(x: {y: "z", w: 1, v: {u: "t"}}) }', {}, (("x.y", "z"), ("x.w", None), ("x.v.u", "t"))),
        ('{ a(x: {y: "z", y: "w"}) }', {}, (("x.y", None),)),
        ("query($v: A) { a(x: $v) }", {"v": {"y": "z", "w": ["z"]}}, (("x.y", "z"), ("x.w", None))),
        ("query($v: A) { a(x: {y: $v}) }", {"v": "z"}, (("x.y", "z"),)),
        ("{ a(x: {}) }", {}, ()),
    ],
)
def test_resolves_arguments_to_a_string_or_none(
    document: str, variables: dict[str, object], arguments: tuple[tuple[str, str | None], ...]
) -> None:
    assert arguments_of(document, **variables) == arguments


def test_expands_fragments_in_place() -> None:
    document = "{ a { ...F ... { d } ...on B { x: e } } } fragment F on C { b { c } }"
    below = (
        Selection(name="on C", below=(Selection(name="b", below=(Selection(name="c"),)),)),
        Selection(name="d"),
        Selection(name="on B", below=(Selection(name="e", alias="x"),)),
    )
    assert operation_of(document, None).selections == (Selection(name="a", below=below),)


@each(
    "document",
    [
        "{ a { b @skip(if: true) } }",
        "{ a { ...F @skip(if: true) } } fragment F on A { b }",
        "{ a { ...F } } fragment F on A @x { b }",
        "{ a { ...F } }",
        "{ a { ...F } } fragment F on A { ...F }",
        "{" + "a {" * (MAX_DEPTH + 2) + "b" + "}" * (MAX_DEPTH + 3),
        f"{{ a {{ {'...F ' * 60} }} }} fragment F on A {{ {'b ' * (MAX_SELECTIONS // 50)} }}",
    ],
)
def test_does_not_parse_selections_with_directives_bad_fragments_or_too_much_depth(document: str) -> None:
    assert operation_of(document, None).selections is None
