import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.project.render.formats.jsonc import JsoncError, parse, set_members, to_text
from table_tests import each

FILE = """\
// The team's container.
{
    "name": "ours", // what the window says
    /* and so on */
    "remoteUser": "vscode",
    "customizations": {
        "vscode": {"extensions": ["a.b", /* c */ "d.e",]},
    },
}
"""

text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(text, values, max_size=5)


def test_ignores_comments_and_trailing_commas() -> None:
    assert parse(FILE).values == {
        "name": "ours",
        "remoteUser": "vscode",
        "customizations": {"vscode": {"extensions": ["a.b", "d.e"]}},
    }


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029", "\r\n"])
def test_a_line_comment_ends_at_every_line_terminator(end: str) -> None:
    assert parse(f'{{"name": "ours", // see{end} "initializeCommand": "run"\n}}').values == {
        "name": "ours",
        "initializeCommand": "run",
    }


def test_returns_the_line_of_a_member() -> None:
    assert parse(FILE).line_of("remoteUser") == 5


def test_set_members_changes_only_the_given_members() -> None:
    got = set_members(FILE, {"remoteUser": "dev", "service": "agent"})
    expected = FILE.replace('"vscode",\n', '"dev",\n').replace("    },\n}", '    },\n    "service": "agent"\n}')
    assert got == expected


def test_keeps_the_comment_after_the_last_member_beside_that_member() -> None:
    assert set_members('{\n  "a": 1 // one\n}\n', {"b": 2}) == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_adds_a_line_to_an_object_on_one_line() -> None:
    assert set_members('{"a": 1}', {"b": 2}) == '{"a": 1,\n  "b": 2\n}'


def test_fills_an_empty_object() -> None:
    assert set_members("// x\n{\n}\n", {"a": 1, "b": "x"}) == '// x\n{\n  "a": 1,\n  "b": "x"\n}\n'


def test_keeps_a_byte_order_mark() -> None:
    assert set_members("\ufeff{}", {"a": 1}).startswith("\ufeff{")


def test_keeps_windows_line_endings() -> None:
    assert set_members('{\r\n  "a": 1\r\n}\r\n', {"b": 2}) == '{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n'


@given(objects, objects)
def test_set_members_updates_members_and_keeps_all_others(before: dict[str, Any], wanted: dict[str, Any]) -> None:
    for written in (json.dumps(before), json.dumps(before, indent=4), json.dumps(before, ensure_ascii=False)):
        assert parse(set_members(written, wanted)).values == before | wanted


@given(objects)
def test_setting_equal_members_changes_nothing(before: dict[str, Any]) -> None:
    written = json.dumps(before, indent=2)
    assert set_members(written, before) == written


@each(
    ("broken", "line", "column", "what"),
    [
        ("", 1, 1, "expected an object"),
        ("[]", 1, 1, "expected an object"),
        ("{} x", 1, 4, "expected nothing after the object"),
        ('{\n  "a" 1\n}', 2, 7, "expected `:`"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "expected `,`"),
        ('{"a": }', 1, 7, "expected a value"),
        ('{"a": nul}', 1, 7, "expected a value"),
        ("{a: 1}", 1, 2, "expected a key in double quotes"),
        ('{"a": "x\n"}', 1, 9, "this string does not end, or contains invalid characters"),
        ('{"a": "x', 1, 7, "this string does not end, or contains invalid characters"),
        ('{"a": 1, "a": 2}', 1, 10, "`a` is here a second time"),
        ('{"a": ' + "[" * 200, 1, 107, "more than 100 levels"),
        ("{ /* no end", 1, 3, "expected a key in double quotes"),
        ('{"a": [1 2]}', 1, 10, "expected `,`"),
    ],
)
def test_reports_a_syntax_error_with_its_place(broken: str, line: int, column: int, what: str) -> None:
    with pytest.raises(JsoncError) as raised:
        parse(broken)
    assert (raised.value.line, raised.value.column, raised.value.what) == (line, column, what)


def test_writes_a_value_on_one_line() -> None:
    assert to_text({"a": ["ü", None]}) == '{"a": ["ü", null]}'


@each(
    ("number", "expected"),
    [
        ("9" * 5_000, "a number with too many digits"),
        ("-" + "9" * 5_000, "a number with too many digits"),
        ("1e400", "a number that is too large"),
        ("-1e400", "a number that is too large"),
        ("[" * 101, "more than 100 levels"),
    ],
)
def test_reports_too_large_numbers_and_too_many_levels_with_their_place(number: str, expected: str) -> None:
    with pytest.raises(JsoncError) as raised:
        parse(f'{{\n  "a": [{number}]\n}}')
    column = 108 if number.startswith("[") else 9
    assert (raised.value.what, raised.value.line, raised.value.column) == (expected, 2, column)
