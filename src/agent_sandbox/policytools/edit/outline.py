"""The positions of the parts of a policy file in its text, for edits in place."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct
from yaml.events import (
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    Event,
    NodeEvent,
    ScalarEvent,
    StreamEndEvent,
)

from agent_sandbox.policyfile.text.document import LOADER

# The ways to write null.
NULLS = frozenset({"", "~", "null"})


class Style(StrEnum):
    """How a part is written."""

    WORD = "word"
    FLOW = "flow"  # in brackets or braces
    BLOCK = "block"  # by indentation


class Node(Struct, frozen=True, kw_only=True):
    """A part of the document. `end` is the end of its last word or bracket, before comments and white space."""

    style: Style
    start: int
    end: int
    column: int
    text: str = ""
    quoted: bool = False
    children: tuple["Node", ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether there is no text at all, as after `allow:`."""
        return self.style is Style.WORD and self.start == self.end

    @property
    def is_null(self) -> bool:
        """Whether the value is null, written out or empty."""
        return self.style is Style.WORD and not self.quoted and self.text in NULLS

    @property
    def keys(self) -> tuple["Node", ...]:
        """The keys of a mapping."""
        return self.children[0::2]

    def section(self, name: str) -> "Node | None":
        """Return the value of a key of this mapping, or None."""
        pairs = zip(self.keys, self.children[1::2], strict=True)
        return next((value for key, value in pairs if key.text == name), None)


class Outline(Struct, frozen=True, kw_only=True):
    """The document of a file, and the position where more can be added below it."""

    root: Node | None
    end: int


def outline(text: str) -> Outline:
    """Return the outline of a text that `parse_layer` has accepted: one document, no aliases, bounded depth."""
    loader = LOADER(text)
    try:
        return _outline(_events(loader), length=len(text))
    finally:
        loader.dispose()


def _events(loader: object) -> Iterator[Event]:
    while not isinstance(event := loader.get_event(), StreamEndEvent):  # type: ignore[attr-defined] # no stubs
        yield event


def _outline(events: Iterator[Event], *, length: int) -> Outline:
    root, end = None, length
    for event in events:
        if isinstance(event, NodeEvent):
            root = _node(event, events)
        elif isinstance(event, DocumentEndEvent) and event.explicit:
            end = _index(event.start_mark)
    return Outline(root=root, end=end)


def _node(event: Event, events: Iterator[Event]) -> Node:
    start, column = _index(event.start_mark), event.start_mark.column if event.start_mark else 0
    if isinstance(event, ScalarEvent):
        quoted = event.style in {"'", '"'}
        end = _index(event.end_mark)
        return Node(style=Style.WORD, start=start, end=end, column=column, text=event.value, quoted=quoted)
    children = []
    while not isinstance(inner := next(events), CollectionEndEvent):
        children.append(_node(inner, events))
    if isinstance(event, CollectionStartEvent) and event.flow_style:
        style, end = Style.FLOW, _index(inner.end_mark)
    else:
        # The parser's own end is after the comments that follow.
        style, end = Style.BLOCK, children[-1].end if children else start
    return Node(style=style, start=start, end=end, column=column, children=tuple(children))


def _index(mark: object) -> int:
    return int(getattr(mark, "index", 0))
