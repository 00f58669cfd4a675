"""The files that a devcontainer.json tells an editor to start: ours, and those that the user added to it."""

import re
from typing import Any

from agent_sandbox.project.render.formats import jsonc
from agent_sandbox.stack.engine import SHARED_FILE, STACK_FILE

FILES = "dockerComposeFile"
# Ours, now and as earlier versions wrote it.
OURS = frozenset({SHARED_FILE, STACK_FILE})
LISTED = re.compile(rf'"{FILES}"\s*:\s*\[')


def with_added(present: Any, ours: str) -> str | list[str]:  # noqa: ANN401 - whatever a user's file has
    """Return our file, with the files that the user added to it.

    >>> with_added([STACK_FILE, "db.yml"], SHARED_FILE)[1:]
    ['db.yml']
    """
    named = listed(present)
    added = [name for name in named if name not in OURS] if OURS.intersection(named) else []
    return [ours, *added] if added else ours


def added_files(text: str) -> tuple[str, ...]:
    """Return the files that the user added in a devcontainer.json: absolute, or relative to its directory.

    A key that is spelled with an escape is not found. Then an editor starts more than our commands do, and the question
    about trust lists the key.
    """
    if not LISTED.search(text):
        return ()
    try:
        first, *others = listed(jsonc.parse(text).values.get(FILES)) or [""]
    except jsonc.JsoncError:
        return ()
    return tuple(others) if first == SHARED_FILE else ()


def listed(present: Any) -> list[str]:  # noqa: ANN401 - as above
    """Return the names in a value that is one name or a list."""
    named = present if isinstance(present, list) else [present]
    return [name for name in named if isinstance(name, str)]
