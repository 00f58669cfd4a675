"""Parse JSON with comments and trailing commas, and edit its members in place.

Only members that are set change; comments, order, indentation and all other members stay.
"""

import json
import re
from collections.abc import Mapping
from math import isinf
from typing import Any

from msgspec import Struct

# Editors differ in which characters end a comment; end it at the first, so that no member after it is missed.
COMMENT = r"//[^\n\r\u2028\u2029]*"
TRIVIA = re.compile(rf"(?:\s+|{COMMENT}|/\*.*?\*/)*", re.DOTALL)
# What may follow a member on its line and belongs to it.
TAIL = re.compile(rf"[ \t]*(?P<comma>,?)(?:[ \t]+|/\*[^\n]*?\*/|{COMMENT})*")
LITERAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
DECODER = json.JSONDecoder()
DEPTH = 100


class JsoncError(ValueError):
    """The place and reason of a syntax error."""

    def __init__(self, text: str, position: int, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)


class Member(Struct, frozen=True, kw_only=True):
    """A member of the outermost object: its value and its position in the text."""

    value: Any
    key_start: int
    start: int
    end: int


class Document(Struct, frozen=True, kw_only=True):
    """An object with the positions of its members."""

    text: str
    opened: int
    members: Mapping[str, Member]

    @property
    def values(self) -> dict[str, Any]:
        """The object as plain values."""
        return {key: member.value for key, member in self.members.items()}

    def line_of(self, key: str) -> int:
        """Return the line of a member's key."""
        return self.text.count("\n", 0, self.members[key].key_start) + 1


def parse(text: str) -> Document:
    """Return the document, or raise JsoncError."""
    scanner = _Scanner(text)
    opened = scanner.skip(0 if not text.startswith("\ufeff") else 1)
    if text[opened : opened + 1] != "{":
        raise JsoncError(text, opened, "expected an object")
    members, end = scanner.members(opened, depth=0)
    end = scanner.skip(end)
    if end != len(text):
        raise JsoncError(text, end, "expected nothing after the object")
    return Document(text=text, opened=opened + 1, members=members)


def set_members(text: str, values: Mapping[str, Any]) -> str:
    """Return the text with these members set: replaced in place, or added at the end."""
    document = parse(text)
    changed = [key for key in values if key in document.members and document.values[key] != values[key]]
    missing = [key for key in values if key not in document.members]
    # From the end, so that earlier positions stay valid.
    result = _added(document, {key: values[key] for key in missing}) if missing else text
    for key in sorted(changed, key=lambda key: -document.members[key].start):
        member = document.members[key]
        result = result[: member.start] + to_text(values[key]) + result[member.end :]
    return result


def _added(document: Document, values: Mapping[str, Any]) -> str:
    text = document.text
    line = "\r\n" if "\r\n" in text else "\n"
    indent = _indent(document)
    added = f",{line}{indent}".join(f"{to_text(key)}: {to_text(value)}" for key, value in values.items())
    last = max((member.end for member in document.members.values()), default=None)
    if last is None:
        return f"{text[: document.opened]}{line}{indent}{added}{line}{text[document.opened :].lstrip()}"
    tail = TAIL.match(text, last)
    end, comma = (tail.end(), tail["comma"]) if tail else (last, "")
    before = f"{text[:last]}{'' if comma else ','}{text[last:end].rstrip()}"
    after = text[end:] if text.startswith(("\n", "\r"), end) else line + text[end:]
    return f"{before}{line}{indent}{added}{after}"


def _indent(document: Document) -> str:
    first = min((member.key_start for member in document.members.values()), default=0)
    line = document.text[document.text.rfind("\n", 0, first) + 1 : first]
    return line if line and not line.strip() else "  "


def to_text(value: Any) -> str:  # noqa: ANN401 - whatever json takes
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


class _Scanner:
    """A single pass over the text; every method takes a position and returns the next one."""

    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, position: int) -> int:
        match = TRIVIA.match(self._text, position)
        return match.end() if match else position

    def members(self, position: int, *, depth: int) -> tuple[dict[str, Member], int]:
        found: dict[str, Member] = {}
        position = self.skip(position + 1)
        while self._text[position : position + 1] != "}":
            key, after = self._key(position)
            if key in found:
                raise JsoncError(self._text, position, f"`{key}` is here a second time")
            start = self.skip(self._expect(self.skip(after), ":"))
            value, end = self._value(start, depth=depth + 1)
            found[key] = Member(value=value, key_start=position, start=start, end=end)
            position = self._separator(end, "}")
        return found, position + 1

    def _items(self, position: int, *, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        position = self.skip(position + 1)
        while self._text[position : position + 1] != "]":
            value, end = self._value(position, depth=depth + 1)
            found.append(value)
            position = self._separator(end, "]")
        return found, position + 1

    def _value(self, position: int, *, depth: int) -> tuple[Any, int]:
        if depth > DEPTH:
            raise JsoncError(self._text, position, f"more than {DEPTH} levels")
        match self._text[position : position + 1]:
            case "{":
                members, end = self.members(position, depth=depth)
                return {key: member.value for key, member in members.items()}, end
            case "[":
                return self._items(position, depth=depth)
            case '"':
                return self._string(position)
        literal = LITERAL.match(self._text, position)
        if literal is None:
            raise JsoncError(self._text, position, "expected a value")
        return self._literal(literal[0], position), literal.end()

    def _literal(self, text: str, position: int) -> bool | float | None:
        try:
            value: bool | float | None = json.loads(text)
        except ValueError as error:  # an integer of more than 4,300 digits
            raise JsoncError(self._text, position, "a number with too many digits") from error
        if isinstance(value, float) and isinf(value):
            raise JsoncError(self._text, position, "a number that is too large")
        return value

    def _key(self, position: int) -> tuple[str, int]:
        if self._text[position : position + 1] != '"':
            raise JsoncError(self._text, position, "expected a key in double quotes")
        return self._string(position)

    def _string(self, position: int) -> tuple[str, int]:
        try:
            value, end = DECODER.raw_decode(self._text, position)
        except json.JSONDecodeError as error:
            raise JsoncError(
                self._text, error.pos, "this string does not end, or contains invalid characters"
            ) from error
        return str(value), end

    def _separator(self, position: int, closing: str) -> int:
        position = self.skip(position)
        if self._text[position : position + 1] == closing:
            return position
        return self.skip(self._expect(position, ","))

    def _expect(self, position: int, character: str) -> int:
        if self._text[position : position + 1] != character:
            raise JsoncError(self._text, position, f"expected `{character}`")
        return position + 1
