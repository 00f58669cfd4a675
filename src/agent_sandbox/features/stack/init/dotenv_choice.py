"""Whether `.env` names the stack: as asked, as recorded, or because the project has no stack file of its own."""

import os
from pathlib import Path

from agent_sandbox.host.files import read_text
from agent_sandbox.problems import UserError
from agent_sandbox.project.dotenv import variable
from agent_sandbox.project.record import Record
from agent_sandbox.project.render.paths import DOTENV, STACK
from agent_sandbox.project.render.record import Choices
from agent_sandbox.stack.engine import FILES_VARIABLE, NAME_VARIABLE, OWN_STACKS


def uses_dotenv(project: Path, choices: Choices | None, record: Record | None, *, asked: bool | None) -> bool:
    """Return whether `.env` should name the stack: as asked or recorded, but never instead of the project's own."""
    if asked is not None:
        return asked
    if any(one and not one.dotenv for one in (choices, record)):
        return False
    text = readable_text(project, DOTENV) or ""
    files, name = variable(text, FILES_VARIABLE), variable(text, NAME_VARIABLE)
    if files and files.startswith(STACK):
        return True
    return not own_stacks(project) and (record is not None or (files, name) == (None, None))


def all_use_dotenv(project: Path, choices: Choices | None, *, asked: bool | None, here: bool) -> bool:
    """Return whether `.env` names the stack in all clones; other files that the one `here` names do not count."""
    if asked is not None:
        return asked
    return choices.dotenv if choices else here or not own_stacks(project)


def dotenv_text(project: Path, *, used: bool, asked: bool | None) -> str | None:
    """Return the text of `.env` if it names the stack, or if our lines in it are to be removed on request."""
    if asked is False:
        return readable_text(project, DOTENV)
    return read_text(project, DOTENV) if used else None


def own_stacks(project: Path) -> tuple[str, ...]:
    """Return the first stack file of the project's own that exists, if any."""
    return tuple(name for name in OWN_STACKS if os.path.exists(project / name))[:1]


def readable_text(project: Path, path: str) -> str | None:
    """Return a file's text, or None if it is a link or not text; the file is not used, so neither is an error."""
    try:
        return read_text(project, path)
    except UserError:
        return None
