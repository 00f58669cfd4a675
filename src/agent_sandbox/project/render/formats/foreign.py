"""Read untrusted YAML within limits, so that no text can crash or hang the reader.

Every scalar is text, and merge keys are not expanded. Aliases are rejected, because nine levels of nine aliases are
387 million values. Duplicate keys are rejected, because readers differ in which one they take.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from agent_sandbox.problems import Problem, UserError

# Scalars are text and merge keys are not expanded, so the result cannot grow beyond the file.
LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
MAX_DEPTH = 32
# A stack has a few hundred values; a megabyte of `-` would have half a million, processed several times.
MAX_VALUES = 20_000
MAX_PROBLEMS = 100
HINT = "agent-sandbox init AGENT shows the expected file"


def load_foreign(text: str, *, file: str, most: int = MAX_VALUES) -> Any:  # noqa: ANN401 - whatever stands in a user's file
    """Return the document, with every scalar as text; raise UserError if it is invalid or beyond the limits.

    >>> load_foreign("a: [1, yes]", file="x.yml")
    {'a': ['1', 'yes']}
    """
    try:
        problems = tuple(islice(_Walk(file=file, most=most).problems(text), MAX_PROBLEMS))
        if problems:
            raise UserError(problems)
        return yaml.load(text, LOADER)  # noqa: S506 - it makes text, lists and mappings alone
    except UnicodeEncodeError as error:  # surrogates from invalid UTF-8
        raise UserError([Problem(where=file, what="is not UTF-8 text", hint="save it as UTF-8")]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        what = f"not YAML: {getattr(error, 'problem', None) or error}"
        raise UserError([Problem(where=where, what=what, hint=HINT)]) from error


class _Collection(Struct):
    """An open list or mapping: a mapping's keys so far, and whether a key comes next."""

    keys: set[str] | None
    key_is_next: bool


class _Walk(Struct, kw_only=True):
    """A check of the events before building: 100,000 levels of nesting overflow the C library's stack."""

    file: str
    most: int
    values: int = 0
    within: list[_Collection] = []

    def problems(self, text: str) -> Iterator[Problem]:
        for event in yaml.parse(text, LOADER):
            if isinstance(event, NodeEvent):
                yield from self._node(event)
            elif isinstance(event, CollectionEndEvent):
                self.within.pop()

    def _node(self, event: NodeEvent) -> Iterator[Problem]:
        self.values += 1
        if self.values > self.most:
            raise UserError([self._at(event, f"this file has more than {self.most} values", HINT)])
        if isinstance(event, AliasEvent):
            yield self._at(event, f"an alias (`*{event.anchor}`)", "write the value out")
        yield from self._repeated(event)
        if isinstance(event, CollectionStartEvent):
            is_mapping = isinstance(event, MappingStartEvent)
            self.within.append(_Collection(set() if is_mapping else None, is_mapping))
            if len(self.within) > MAX_DEPTH:
                raise UserError([self._at(event, f"this is more than {MAX_DEPTH} levels deep", HINT)])

    def _repeated(self, event: NodeEvent) -> Iterator[Problem]:
        inner = self.within[-1] if self.within else None
        if inner is None or inner.keys is None:
            return
        if inner.key_is_next and isinstance(event, ScalarEvent):
            if event.value in inner.keys:
                yield self._at(event, f"key `{event.value}` is here twice", "keep one of them")
            inner.keys.add(event.value)
        inner.key_is_next = not inner.key_is_next

    def _at(self, event: Event, what: str, hint: str) -> Problem:
        mark: Any = event.start_mark
        return Problem(where=f"{self.file}:{mark.line + 1}:{mark.column + 1}", what=what, hint=hint)
