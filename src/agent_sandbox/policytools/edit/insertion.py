"""Add an entry to a section of a policy file by one insertion into its text.

All other characters stay, except a `null` or `~` in place of an empty section.
"""

import json
import re

from msgspec import Struct

from agent_sandbox.policyfile.text.scalars import Doubtful, plain_value
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.outline import Node, Outline, Style, outline

# The line breaks of YAML.
BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
TRAILING_COMMA = re.compile(r"(?:\s|#[^\r\n]*+)*+,")
SAFE = re.compile(r"[A-Za-z0-9][!-~]*(?: [!-~]+)*")
NOT_PLAIN = re.compile(r" #|:(?: |$)")
USUAL_INDENT = 2


class Insertion(Struct, frozen=True, kw_only=True):
    """Text to insert at a position, and the number of characters that it replaces."""

    at: int
    text: str
    instead_of: int = 0

    def into(self, text: str) -> str:
        """Return the text with the insertion."""
        return f"{text[: self.at]}{self.text}{text[self.at + self.instead_of :]}"


def insertion(text: str, section: str, entry: str, *, note: str = "") -> Insertion | None:
    """Return the insertion that adds the entry to the section; None if the section has an unusual form.

    `note` becomes a comment on the entry's line, unless the section is a list in brackets.
    """
    shape = outline(text)
    root = shape.root
    item = f"{written(entry)}  # {note}" if note else written(entry)
    if root is None or root.is_nothing:
        return whole_lines(text, shape.end, f"{section}:", f"{' ' * USUAL_INDENT}- {item}")
    if root.style is Style.FLOW:
        return _in_flow_mapping(text, root, section, entry)
    here = root.section(section)
    if here is None:
        return _new_section(text, shape, root, section, item)
    if here.style is Style.FLOW:
        return in_flow(text, here, flow(entry))
    if here.style is Style.BLOCK:
        return _next_item(text, here, item)
    return _first_item(text, root, here, item) if here.is_null else None


def written(entry: str) -> str:
    """Return the entry as a scalar of block YAML, quoted if needed.

    >>> written("GET https://example.com/a"), written("*.example.com")
    ('GET https://example.com/a', '"*.example.com"')
    """
    try:
        plain = SAFE.fullmatch(entry) and not NOT_PLAIN.search(entry) and plain_value(entry) == entry
    except Doubtful:
        plain = False
    return entry if plain else _quoted(entry)


def _quoted(entry: str) -> str:
    return json.dumps(entry, ensure_ascii=False)


def _in_flow_mapping(text: str, root: Node, section: str, entry: str) -> Insertion:
    here = root.section(section)
    if here is not None:
        return in_flow(text, here, flow(entry))
    key = _quoted(section) if any(key.quoted for key in root.keys) else section
    return in_flow(text, root, f"{key}: [{flow(entry)}]")


def in_flow(text: str, here: Node, piece: str) -> Insertion:
    """Return the insertion of another item before the closing bracket."""
    if here.is_null:
        return Insertion(at=here.start, text=f"[{piece}]", instead_of=here.end - here.start)
    if not here.children:
        return Insertion(at=here.start + 1, text=piece)
    last = here.children[-1].end
    comma = TRAILING_COMMA.match(text, last, here.end - 1)
    return Insertion(at=comma.end(), text=f" {piece}") if comma else Insertion(at=last, text=f", {piece}")


def _next_item(text: str, here: Node, item: str) -> Insertion:
    gap = here.children[0].column - here.column - 1
    line = f"{' ' * here.column}-{' ' * (gap if 1 <= gap <= 8 else 1)}{item}"
    return whole_lines(text, after_line(text, here.end), line)


def _first_item(text: str, root: Node, here: Node, item: str) -> Insertion:
    line = whole_lines(text, after_line(text, here.end), f"{' ' * (root.column + _indent(root))}- {item}")
    if here.is_nothing:
        return line
    # `null` is removed with the space before it; a comment after it stays.
    at = len(text[: here.start].rstrip(" \t"))
    return Insertion(at=at, text=f"{text[here.end : line.at]}{line.text}", instead_of=line.at - at)


def _new_section(text: str, shape: Outline, root: Node, name: str, item: str) -> Insertion:
    return new_key(text, shape, root, f"{name}:", f"{' ' * _indent(root)}- {item}")


def new_key(text: str, shape: Outline, root: Node, *lines: str) -> Insertion:
    """Return the insertion of these lines at the end of the document's block mapping."""
    apart = any(_below_blank(text[: key.start - key.column]) for key in root.keys[1:])
    indented = (f"{' ' * root.column}{line}" for line in lines)
    return whole_lines(text, shape.end, *(("", *indented) if apart else indented))


def _below_blank(above: str) -> bool:
    return not above.splitlines()[-1].strip()


def _indent(root: Node) -> int:
    """Return the indentation of the file's other lists."""
    lists = (child for child in root.children[1::2] if child.style is Style.BLOCK)
    return next((child.column - root.column for child in lists), USUAL_INDENT)


def after_line(text: str, at: int) -> int:
    """Return the start of the next line, or `at` itself if it starts a line, as at the end of a block scalar (`|`)."""
    if BREAK.search(text[max(at - 1, 0) : at]):
        return at
    found = BREAK.search(text, at)
    return found.end() if found else len(text)


def whole_lines(text: str, at: int, *lines: str) -> Insertion:
    """Return the insertion of whole lines at the start of a line, with the file's line ending."""
    found = BREAK.search(text)
    ending = found[0] if found else "\n"
    if at and not BREAK.search(text[at - 1 : at]):
        return Insertion(at=at, text="".join(f"{ending}{line}" for line in lines))
    return Insertion(at=at, text="".join(f"{line}{ending}" for line in lines))
