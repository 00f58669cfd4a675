"""Render the file that is the same in every clone, and check that a clone's file says no more.

Editors start it. It has no services: it includes the stack's file, and takes only the stack's name from a variable. So
no variable can change what is mounted or reachable, and without a value nothing starts.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agent_sandbox.project.render.formats.faithful import load_yaml, require_same
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.project.render.record import choices_said
from agent_sandbox.stack.engine import SHARED_FILE, STACK_FILE, STACK_VARIABLE
from agent_sandbox.stack.naming import RECORD
from agent_sandbox.stack.workspace import Workspace

NO_PINS: Mapping[str, str] = MappingProxyType({})
MISSING = "this clone has no sandbox yet: run `agent-sandbox up` in the project"
NAME = f"${{{STACK_VARIABLE}:?{MISSING}}}"
# As this or another version writes it: no default, no other variable.
ANY_NAME = re.compile(rf"\$\{{{STACK_VARIABLE}:\?[^${{}}]*\}}")


def render_shared(
    templates: Templates, agents: tuple[str, ...], workspace: Workspace, *, pins: Mapping[str, str] = NO_PINS
) -> str:
    """Return the text of the file, parsed back and compared."""
    document = shared_document(agents, workspace, pins=pins)
    text = templates.render(f"_shared/{SHARED_FILE}.j2", doc=document)
    require_same(SHARED_FILE, expected=document, actual=load_yaml(text))
    return text


def shared_document(
    agents: tuple[str, ...], workspace: Workspace, *, pins: Mapping[str, str] = NO_PINS
) -> dict[str, Any]:
    """Return the document: nothing in it depends on the machine, the user or the directory."""
    return {"name": NAME, RECORD: choices_said(agents, workspace, pins), "include": [STACK_FILE]}


def odd_keys(document: Any) -> tuple[str, ...]:  # noqa: ANN401 - any document
    """Return the keys of such a file by which an editor would start anything else than the stack.

    >>> odd_keys({"name": NAME, "include": [STACK_FILE], "services": {}})
    ('services',)
    """
    document = document if isinstance(document, dict) else {}
    known = {
        "name": bool(ANY_NAME.fullmatch(str(document.get("name", "")))),
        RECORD: isinstance(document.get(RECORD), dict),
        "include": document.get("include") == [STACK_FILE],
    }
    return (*(key for key, right in known.items() if not right), *(str(key) for key in document if key not in known))
