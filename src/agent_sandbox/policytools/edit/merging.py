"""Add settings and entries to the text of a policy file with small changes, and verify the result."""

from collections.abc import Mapping
from typing import Any

import yaml

from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.policytools.edit.editing import Edited, Readers
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.insertion import (
    USUAL_INDENT,
    Insertion,
    after_line,
    in_flow,
    new_key,
    whole_lines,
)
from agent_sandbox.policytools.edit.outline import Node, Style, outline
from agent_sandbox.problems import Problem, UserError

type Values = Mapping[str, Mapping[str, object] | list[object]]


def merge(text: str, values: Values, read: Readers) -> Edited | None:
    """Return the text with these keys in its sections, and these entries in its lists; None if it has them.

    All else stays. Raises UserError if the result would not be exactly what was asked for.
    """
    wanted = _merged(_value(text, read.file), values)
    if wanted == _value(text, read.file):
        return None
    changed = text
    for section, added in values.items():
        pairs = list(added.items()) if isinstance(added, Mapping) else [("", entry) for entry in added]
        for key, value in pairs:
            changed = _with(changed, section, key, value, read) or text
    if _value(changed, read.file) != wanted:
        what = "cannot change this file automatically"
        hint = "add by hand: " + "; ".join(f"{section}: {flow(added)}" for section, added in values.items())
        raise UserError([Problem(where=read.file, what=what, hint=hint)])
    read.policy(read.layer(decode_policy(changed.encode(), file=read.file)))
    return Edited(text=changed, line=_first_changed(text, changed))


def _value(text: str, file: str) -> dict[str, Any]:
    value = parse_document(text, file=file).value
    return dict(value) if isinstance(value, dict) else {}


def _merged(old: Mapping[str, Any], values: Values) -> dict[str, Any]:
    new = dict(old)
    for section, added in values.items():
        here = new.get(section)
        if isinstance(added, Mapping):
            new[section] = {**(here or {}), **added}
        else:
            new[section] = [*(here or []), *(entry for entry in added if entry not in (here or []))]
    return new


def _with(text: str, section: str, key: str, value: object, read: Readers) -> str:
    """Return the text with one key or entry; an empty text if the section has an unusual form."""
    here = _value(text, read.file).get(section) or {}
    if value in here if isinstance(here, list) else here.get(key) == value:
        return text
    shape = outline(text)
    root = shape.root
    node = root.section(section) if root else None
    lines = _lines(key, value)
    if root is None or root.is_nothing:
        return whole_lines(text, shape.end, f"{section}:", *_indented(lines)).into(text)
    if root.style is Style.FLOW:
        return ""
    if node is None:
        return new_key(text, shape, root, f"{section}:", *_indented(lines)).into(text)
    return _into(text, node, key, value, lines).into(text)


def _into(text: str, node: Node, key: str, value: object, lines: list[str]) -> Insertion:
    inner = node.section(key) if key else None
    if inner is not None:
        return Insertion(at=inner.start, text=flow(value), instead_of=inner.end - inner.start)
    if node.is_nothing:
        return whole_lines(text, after_line(text, node.end), *_indented(lines))
    if node.style is Style.BLOCK:
        return whole_lines(text, after_line(text, node.end), *(f"{' ' * node.column}{line}" for line in lines))
    return in_flow(text, node, f"{key}: {flow(value)}" if key else flow(value))


def _lines(key: str, value: object) -> list[str]:
    """Return a key with its value, or an entry of a list, as lines of YAML."""
    if key:
        return [f"{key}: {flow(value)}"]
    # Collections that hold no others are written in brackets.
    return yaml.safe_dump([value], default_flow_style=None, sort_keys=False, width=1000).splitlines()


def _indented(lines: list[str]) -> list[str]:
    return [f"{' ' * USUAL_INDENT}{line}" for line in lines]


def _first_changed(before: str, after: str) -> int:
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    same = next((at for at, (old, new) in enumerate(pairs) if old != new), len(before.splitlines()))
    return same + 1
