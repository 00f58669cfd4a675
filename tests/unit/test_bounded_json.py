"""Foreign JSON is parsed, or rejected with one kind of error."""

import ast
from pathlib import Path

import pytest

from agent_sandbox.bounded_json import NotJsonError, read_json
from table_tests import each

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "agent_sandbox"
# The reader itself; GraphQL bodies, in which duplicate keys count; JSON with comments.
READERS = {"bounded_json.py", "policy/http/json_body.py", "project/render/formats/jsonc.py"}


@each(
    ("text", "expected"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        (f'{{"a": {"9" * 5_000}}}', "a number with too many digits"),
        (f"-{'9' * 5_000}", "a number with too many digits"),
        ("[NaN]", "a number that JSON does not have: NaN"),
        ("-Infinity", "a number that JSON does not have: -Infinity"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("", "Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_invalid_json_raises_not_json_error_with_the_reason(text: str | bytes, expected: str) -> None:
    with pytest.raises(NotJsonError) as raised:
        read_json(text)
    assert str(raised.value) == expected


@each(("text", "expected"), [("[1, 1.5, null]", [1, 1.5, None]), (b'{"a": "\xc3\xbc"}', {"a": "ü"}), (" 4 ", 4)])
def test_reads_json_from_text_and_from_bytes(text: str | bytes, expected: object) -> None:
    assert read_json(text) == expected


def test_only_three_modules_of_the_package_parse_json() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"json.load", "json.loads", "json.JSONDecoder"}
    }
    assert found == READERS
