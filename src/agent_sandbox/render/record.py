"""Read the choices that an earlier `init` recorded in the stack file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent_sandbox.agents.pin import Pins, pins_in
from agent_sandbox.problems import UserError
from agent_sandbox.render.formats.foreign import load_foreign
from agent_sandbox.render.formats.header import Hand, hand_of
from agent_sandbox.stack.limits import limits
from agent_sandbox.stack.model import Limits
from agent_sandbox.stack.naming import RECORD
from agent_sandbox.stack.workspace import Ide, Owner

# Recorded only if it is false.
DOTENV_KEY = "dotenv"
# Recorded only if it is true.
SETTINGS_KEY = "settings"
# Recorded only if there are any: the versions that `update` chose, by agent.
PINS_KEY = "versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The choices that a stack was rendered from."""

    name: str
    agents: tuple[str, ...]
    pins: Pins = field(default_factory=dict)
    title: str
    ide: Ide
    owner: Owner
    limits: Limits
    dotenv: bool
    settings: bool = False


@lru_cache(maxsize=4)  # `init` needs it several times
def parse_record(text: str) -> Record | None:
    """Return the record in a stack file, or None if the file is not ours."""
    if hand_of(text) is Hand.FOREIGN:
        return None
    try:
        document: dict[str, Any] = load_foreign(text, file="")
        said = document[RECORD]
        agents = agents_in(said)
        uid, _, gid = str(said["dev"]).partition(":")
        if not agents:
            return None
        return Record(
            name=str(document["name"]),
            agents=agents,
            pins=pins_in(said.get(PINS_KEY)),
            title=str(said["title"]).replace("$$", "$"),
            ide=Ide(said["ide"]),
            owner=Owner(uid=int(uid), gid=int(gid)),
            limits=limits({str(name): str(text) for name, text in dict(said.get("limits") or {}).items()}),
            dotenv=said.get(DOTENV_KEY) != "false",
            settings=said.get(SETTINGS_KEY) == "true",
        )
    except (UserError, LookupError, TypeError, ValueError):
        return None


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


def uses_dotenv(text: str) -> bool:
    """Return whether the stack of this file takes names of further files from the project's `.env`."""
    record = parse_record(text) if DOTENV_KEY in text else None
    return record is None or record.dotenv
