"""The choices that `init` records for all clones of a project."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent_sandbox.agents.pin import Pins, pins_in
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.formats.header import Provenance, provenance_of
from agent_sandbox.project.render.paths import PROJECT_FILE, SHARED
from agent_sandbox.stack.limits import Limits, kept, limits
from agent_sandbox.stack.naming import RECORD
from agent_sandbox.stack.recorded import Ide

if TYPE_CHECKING:
    from agent_sandbox.stack.workspace import Workspace

# Recorded only if it is false.
DOTENV_KEY = "dotenv"
# Recorded only if it is true.
SETTINGS_KEY = "settings"
# Recorded only if there is a project file: in a clone, the digest of its text; for all clones, its name.
PROJECT_FILE_KEY = "project_file"
# Recorded only if there are any: the versions by agent that the project file says; for all clones only without one.
PINS_KEY = "versions"


class Choices(Struct, frozen=True, kw_only=True):
    """What was chosen for a project, on any machine; without a title, a stack has its directory's name."""

    agents: tuple[str, ...]
    pins: Pins = {}
    title: str
    ide: Ide
    limits: Limits
    dotenv: bool
    # "" unless there is a project file, which then says what the stack is made of.
    project_file: str = ""


def parse_choices(text: str) -> Choices | None:
    """Return the choices in the file that is the same in every clone, or None if the file is not ours."""
    if provenance_of(text) is Provenance.FOREIGN:
        return None
    try:
        return Choices(**choices_in(load_foreign(text, file=SHARED)[RECORD]))
    except (UserError, LookupError, TypeError, ValueError):
        return None


def choices_said(agents: tuple[str, ...], workspace: "Workspace", pins: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of a project's choices, for the file that is the same in every clone."""
    chosen = kept(workspace.limits)
    return {
        **agents_record(agents),
        **({PINS_KEY: dict(pins)} if pins and not workspace.project_file else {}),
        **({"title": workspace.title.replace("$", "$$")} if workspace.is_titled else {}),
        **({} if workspace.project_file else {"ide": workspace.ide.value, **({"limits": chosen} if chosen else {})}),
        **({} if workspace.all_use_dotenv else {DOTENV_KEY: False}),
        **({PROJECT_FILE_KEY: PurePosixPath(PROJECT_FILE).name} if workspace.project_file else {}),
    }


def choices_in(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `Choices` as they are recorded; raise an error if they are not valid."""
    agents = agents_in(said)
    if not agents:
        raise ValueError("no agents")
    return {
        "agents": agents,
        "pins": pins_in(said.get(PINS_KEY)),
        "title": str(said.get("title", "")).replace("$$", "$"),
        "ide": Ide(said.get("ide", Ide.VSCODE.value) if said.get(PROJECT_FILE_KEY) else said["ide"]),
        "limits": limits({str(name): str(text) for name, text in dict(said.get("limits") or {}).items()}),
        "dotenv": said.get(DOTENV_KEY) != "false",
        "project_file": str(said.get(PROJECT_FILE_KEY, "")),
    }


def agents_record(names: tuple[str, ...]) -> dict[str, Any]:
    """Return how a stack's agents are recorded: one by its name, several as a list.

    >>> agents_record(("a",)), agents_record(("a", "b"))
    ({'agent': 'a'}, {'agents': ['a', 'b']})
    """
    return {"agents": list(names)} if len(names) > 1 else {"agent": names[0]}


def agents_in(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the recorded agents, or none if the record is not ours."""
    names: Any = said["agents"] if "agents" in said else [said.get("agent")]
    known = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(dict.fromkeys(names)) if known else ()
