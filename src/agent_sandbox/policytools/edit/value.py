"""Set one key of a YAML file by one change of its text. All other characters stay."""

import json
import re
from collections.abc import Sequence

from agent_sandbox.policyfile.text.scalars import Doubtful, plain_or_decimal
from agent_sandbox.policytools.edit.insertion import USUAL_INDENT, Insertion, after_line, in_flow, new_key, whole_lines
from agent_sandbox.policytools.edit.outline import Node, Outline, Style, outline

type Simple = bool | int | str | Sequence[str]
# A word that needs no quotes in brackets either.
BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@/-]*")


def set_value(text: str, path: Sequence[str], value: Simple) -> Insertion | None:
    """Return the change that gives the key at `path` this value; None if the file has an unusual form.

    >>> set_value("limits: {cpus: 2} # enough", ("limits", "cpus"), 4).into("limits: {cpus: 2} # enough")
    'limits: {cpus: 4} # enough'
    """
    shape, written, rest = outline(text), flow_text(value), tuple(path)
    node = shape.root
    if node is None or node.is_nothing:
        return whole_lines(text, shape.end, *_lines(rest, written))
    margin = node.column
    while True:
        if node.is_null:
            return _in_place_of_null(text, node, rest, written, margin)
        if node.style is Style.WORD:
            return None
        child = node.section(rest[0])
        if child is None:
            return _added(text, shape, node, rest, written)
        if len(rest) == 1:
            return _replaced(child, written)
        margin, node, rest = node.column, child, rest[1:]


def flow_text(value: Simple) -> str:
    """Return a value as flow YAML, quoted where needed.

    >>> flow_text(["pnpm@10", "ruff==0.14.1", "a b", "no"]), flow_text("1.5"), flow_text("15")
    ('[pnpm@10, ruff==0.14.1, "a b", "no"]', '1.5', '"15"')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)
        case _:
            return f"[{', '.join(map(flow_text, value))}]"


def _is_plain(text: str) -> bool:
    try:
        return bool(BARE.fullmatch(text)) and plain_or_decimal(text) == text
    except Doubtful:
        return False


def _lines(path: Sequence[str], written: str) -> list[str]:
    """Return block YAML for the key.

    >>> _lines(("limits", "cpus"), "4")
    ['limits:', '  cpus: 4']
    """
    ends = [":"] * (len(path) - 1) + [f": {written}"]
    return [f"{' ' * USUAL_INDENT * depth}{key}{end}" for depth, (key, end) in enumerate(zip(path, ends, strict=True))]


def _flow(path: Sequence[str], written: str) -> str:
    key, *more = path
    return f"{key}: {{{_flow(more, written)}}}" if more else f"{key}: {written}"


def _added(text: str, shape: Outline, node: Node, path: Sequence[str], written: str) -> Insertion:
    if node.style is Style.FLOW:
        return in_flow(text, node, _flow(path, written))
    lines = _lines(path, written)
    if node is shape.root:
        return new_key(text, shape, node, *lines)
    return whole_lines(text, after_line(text, node.end), *(f"{' ' * node.column}{line}" for line in lines))


def _in_place_of_null(text: str, node: Node, path: Sequence[str], written: str, margin: int) -> Insertion:
    if not node.is_nothing:
        return Insertion(at=node.start, text=f"{{{_flow(path, written)}}}", instead_of=node.end - node.start)
    indent = " " * (margin + USUAL_INDENT)
    return whole_lines(text, after_line(text, node.end), *(f"{indent}{line}" for line in _lines(path, written)))


def _replaced(child: Node, written: str) -> Insertion:
    if child.is_nothing:
        return Insertion(at=child.start, text=f" {written}")
    return Insertion(at=child.start, text=written, instead_of=child.end - child.start)
