"""Set keys in the text of a project file with the smallest changes, and verify the result."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_sandbox.policytools.edit.insertion import insertion
from agent_sandbox.policytools.edit.value import Simple, flow_text, set_value
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.parsing import parse_project_file

SCHEMA_FILE = "sandbox.schema.json"
NEW = f"""\
# yaml-language-server: $schema={SCHEMA_FILE} (agent-sandbox project schema > .devcontainer/{SCHEMA_FILE})
# What the sandbox is made of. `agent-sandbox up` applies an edit.
version: 1
"""

type Key = tuple[str, ...]


def set_keys(text: str, values: Mapping[Key, Simple], *, file: str) -> str:
    """Return the text with these keys set; raise UserError if the result would not be exactly what was asked for."""
    parse_project_file(text, file=file)
    for path, value in values.items():
        change = set_value(text, path, value)
        after = change.into(text) if change else ""
        if not change or _document(after, file) != _with(_document(text, file), path, value):
            what = f"cannot set `{'.'.join(path)}` in this file automatically"
            hint = f"write `{_nested(path, value)}` by hand"
            raise UserError([Problem(where=file, what=what, hint=hint)])
        text = after
    return text


def add_packages(text: str, names: Sequence[str], *, file: str) -> str:
    """Return the text with these Debian packages; raise UserError if they cannot be added."""
    for name in names:
        present = parse_project_file(text, file=file).packages
        if name in present:
            continue
        change = insertion(text, "packages", name)
        after = change.into(text) if change else ""
        wanted = {**_document(text, file), "packages": (*present, name)}
        if not change or _document(after, file) != wanted:
            what, hint = f"cannot add the package {name} to this file automatically", f"add `- {name}` under `packages`"
            raise UserError([Problem(where=file, what=what, hint=f"{hint} by hand")])
        text = after
    return text


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return parse_project_file(text, file=file).model_dump(exclude_unset=True)
    except UserError:
        return {}


def _with(document: dict[str, Any], path: Key, value: Simple) -> dict[str, Any]:
    lines = parse_project_file(f"{_nested(path, value)}\n", file="").model_dump(exclude_unset=True)
    key, *more = path
    inner = lines[key]
    if more and isinstance(document.get(key), dict):
        inner = {**document[key], **inner}
    return {**document, key: inner}


def _nested(path: Key, value: Simple) -> str:
    key, *more = path
    return f"{key}: {{{_nested(tuple(more), value)}}}" if more else f"{key}: {flow_text(value)}"
