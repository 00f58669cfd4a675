"""Parse YAML into plain values with the place of each.

Policy files and project files use plain YAML: mappings, lists, text, whole numbers, `true` and `false`. Everything else
is rejected, because parsers differ on it (`no`, `0o10`, `1:30`) or because it can expand without bounds (aliases).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from agent_sandbox.policy.text import MAX_SHOWN, safe_repr
from agent_sandbox.policyfile.text.scalars import Doubtful, plain_value
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.layer import Location

LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 16
# Characters with a special meaning in YAML at the start of a word.
SIGNS = tuple("*&!@%`")

type Value = bool | int | str | list["Value"] | dict[str, "Value"] | None


class Place(Struct, frozen=True, kw_only=True):
    """A line and a column, counted from 1."""

    line: int
    column: int


class Document(Struct, frozen=True, kw_only=True):
    """The values of a file, the place of each, and the problems with its YAML."""

    value: Value
    places: "dict[Location, Place]"
    keys: "dict[Location, Place]"
    problems: tuple[Problem, ...]

    @property
    def lines(self) -> "dict[Location, int]":
        """The line of each part."""
        return {location: place.line for location, place in self.places.items()}


def parse_document(
    text: str, *, file: str, plain: Callable[[str], Value] = plain_value, shows: bool = True
) -> Document:
    """Return the document; raise UserError if the text is not YAML. `plain` reads an unquoted word.

    With `shows=False`, no problem repeats a value.
    """
    try:
        loader = LOADER(text)
    except UnicodeEncodeError as error:  # undecodable bytes (surrogates)
        raise UserError([Problem(where=file, what="not UTF-8 text", hint="save it as UTF-8")]) from error
    try:
        return _Builder(file=file, loader=loader, plain=plain, shows=shows).document()
    except yaml.YAMLError as error:
        raise UserError([syntax_problem(error, text, file, shows=shows)]) from error
    finally:
        loader.dispose()


class _Builder(Struct, kw_only=True):
    """Builds values from the parser's events. Depth, and with it recursion, is bounded."""

    file: str
    loader: yaml.SafeLoader
    plain: Callable[[str], Value]
    shows: bool
    places: "dict[Location, Place]" = {}
    keys: "dict[Location, Place]" = {}
    problems: list[Problem] = []

    def document(self) -> Document:
        value: Value = None
        seen = False
        while not isinstance(event := self._next(), StreamEndEvent):
            if isinstance(event, NodeEvent):
                if seen:
                    raise self._stopped_by(event, "a second document", "keep one document: remove `---`")
                value, seen = self._value(event, ()), True
        return Document(value=value, places=self.places, keys=self.keys, problems=tuple(self.problems))

    def _next(self) -> Event:
        event: Event = self.loader.get_event()  # type: ignore[no-untyped-call] # the stubs leave it out
        return event

    def _value(self, event: Event, location: "Location") -> Value:
        self.places[location] = _place(event)
        if len(location) > MAX_DEPTH:
            raise self._stopped_by(event, f"more than {MAX_DEPTH} levels deep", "write it with fewer levels")
        self._refuse_extras(event)
        match event:
            case ScalarEvent():
                return self._scalar(event)
            case SequenceStartEvent():
                return self._list(location)
            case MappingStartEvent():
                return self._mapping(location)
            case _:
                return None

    def _list(self, location: "Location") -> list[Value]:
        values: list[Value] = []
        while not isinstance(event := self._next(), CollectionEndEvent):
            values.append(self._value(event, (*location, len(values))))
        return values

    def _mapping(self, location: "Location") -> dict[str, Value]:
        values: dict[str, Value] = {}
        while not isinstance(event := self._next(), CollectionEndEvent):
            key = self._key(event)
            if key in values:
                self._report(event, f"duplicate key {safe_repr(key)}", "keep one of them")
                # Parse the value, but keep the first one.
                self._value(self._next(), (*location, f"{key} "))
                continue
            self.keys[*location, key] = _place(event)
            values[key] = self._value(self._next(), (*location, key))
        return values

    def _key(self, event: Event) -> str:
        self._refuse_extras(event)
        if not isinstance(event, ScalarEvent):
            raise self._stopped_by(
                event, "a key that is not a word", "a key is a word before a `:`; quote text with braces"
            )
        if event.value == "<<" and not event.style:
            self._report(event, "a merge key (`<<`)", "write the entry out")
        return str(event.value)

    def _scalar(self, event: ScalarEvent) -> Value:
        if not event.implicit[0]:
            return str(event.value)
        try:
            return self.plain(event.value)
        except Doubtful as doubt:
            what = f"YAML parsers differ on {safe_repr(event.value) if self.shows else 'this word'}"
            self._report(event, what, doubt.hint if self.shows else "quote it")
            return str(event.value)

    def _refuse_extras(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            self._report(event, f"an alias{self._named('*', event.anchor)}", "write the value out")
        elif isinstance(event, NodeEvent) and event.anchor is not None:
            what = f"an anchor{self._named('&', event.anchor)}"
            self._report(event, what, "remove it; write each value where it is used")
        tag = getattr(event, "tag", None)
        if tag is not None:
            what = f"a tag ({safe_repr(str(tag))})" if self.shows else "a tag"
            self._report(event, what, "remove it; only plain values are allowed")

    def _named(self, sign: str, name: str | None) -> str:
        return f" (`{sign}{str(name)[:MAX_SHOWN]}`)" if self.shows else ""

    def _report(self, event: Event, what: str, hint: str) -> None:
        place = _place(event)
        self.problems.append(Problem(where=f"{self.file}:{place.line}:{place.column}", what=what, hint=hint))

    def _stopped_by(self, event: Event, what: str, hint: str) -> UserError:
        self._report(event, what, hint)
        return UserError(self.problems)


def _place(event: Event) -> Place:
    mark = event.start_mark
    return Place(line=mark.line + 1, column=mark.column + 1) if mark else Place(line=1, column=1)


def syntax_problem(error: yaml.YAMLError, text: str, file: str, *, shows: bool = True) -> Problem:
    """Return the syntax error as a problem with line and column."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Problem(where=file, what=f"invalid YAML: {error}")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    where = f"{file}:{mark.line + 1}:{mark.column + 1}"
    if "\t" in line[: mark.column + 1]:
        return Problem(where=where, what="a tab where YAML needs spaces", hint="indent with spaces")
    return Problem(
        where=where, what=f"invalid YAML: {getattr(error, 'problem', error)}", hint=_hint(line) if shows else ""
    )


def _hint(line: str) -> str:
    """Return how to write `- *.example.com`, the most common error; empty for others."""
    word = line.split("#", maxsplit=1)[0].strip().removeprefix("- ").split(": ")[-1].strip()
    return f'quote a word that begins with `{word[0]}`: "{word}"' if word.startswith(SIGNS) and len(word) <= 80 else ""
