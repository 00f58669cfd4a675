"""The agents on this machine: built in, or the user's own in `~/.config/agent-sandbox/agents/`; and newer versions."""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_sandbox.agents import catalogue
from agent_sandbox.agents.catalogue import HostRead
from agent_sandbox.agents.pin import VERSION, Pins
from agent_sandbox.agents.together import Agents
from agent_sandbox.bounded_json import read_json
from agent_sandbox.host.files import read_text, write_private
from agent_sandbox.host.program_path import OUTSIDE, in_project
from agent_sandbox.host.user_dirs import config_directory
from agent_sandbox.images import NO_PINS
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root

if TYPE_CHECKING:
    from agent_sandbox.agents.manifest import AgentManifest

OWN = "agents"
VERSIONS = "versions.json"  # in the state directory, so that `agents` shows them without a request


def built_in() -> Path:
    """Return the folder of the agents that are built in."""
    return data_root() / "templates"


def own_agents(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folder of the user's own agents, if there is one."""
    config = config_directory(environ)
    return (config / OWN,) if config and (config / OWN).is_dir() else ()


def known_agents() -> tuple[str, ...]:
    """Return the names of all agents, sorted."""
    return catalogue.known_agents(built_in(), *own_agents(os.environ))


def agents_beside(*named: str) -> tuple[str, ...]:
    """Return the known agents that are not among those named already, for shell completion."""
    return tuple(agent for agent in known_agents() if agent not in named)


def place_of(agent: str) -> str:
    """Return the manifest of one of the user's own agents as a path, or "" for an agent that is built in."""
    files = (folder / agent / catalogue.MANIFEST for folder in own_agents(os.environ))
    return next((str(file) for file in files if file.is_file()), "")


def host_reads() -> tuple[HostRead, ...]:
    """Return the project files from which any agent, started on the host machine, would run something."""
    own = catalogue.known_agents(*own_agents(os.environ))
    rows = (HostRead(path=row.path, why=row.why) for agent in own for row in load_manifest(agent).host_reads)
    return tuple(dict.fromkeys((*catalogue.host_reads(built_in()), *rows)))


def load_manifest(agent: str) -> "AgentManifest":
    """Return an agent's manifest, or raise UserError, also for one that an agent could have written."""
    if (file := place_of(agent)) and in_project(file):
        what = "this manifest is in a project, where an agent could name commands that run as you"
        raise UserError([Problem(where=file, what=what, hint=OUTSIDE)])
    return catalogue.load_manifest(built_in(), agent, *own_agents(os.environ))


def load_agents(names: Iterable[str], pins: Pins = NO_PINS) -> Agents:
    """Return the agents of a stack with its project's pins, or raise UserError with the problems of all."""
    manifests, problems = load_manifests(names)
    if problems:
        raise UserError(problems)
    return Agents(tuple(manifests)).with_pins(pins)


def load_manifests(names: Iterable[str]) -> "tuple[list[AgentManifest], list[Problem]]":
    """Return the manifests that can be loaded, and the problems of the others."""
    manifests: list[AgentManifest] = []
    problems: list[Problem] = []
    for name in names:
        try:
            manifests.append(load_manifest(name))
        except UserError as error:
            problems += error.problems
    return manifests, problems


def known_versions(state: Path) -> dict[str, str]:
    """Return the newest version of each agent that was ever looked up, by the agent's name."""
    with suppress(OSError, ValueError, UserError):
        found = read_json(read_text(state, VERSIONS) or "{}")
        rows = found.items() if isinstance(found, dict) else ()
        return {name: version for name, version in rows if isinstance(version, str) and VERSION.fullmatch(version)}
    return {}


def remember_versions(state: Path, found: Mapping[str, str]) -> None:
    """Store newly found versions, and keep those of other agents."""
    with suppress(OSError, UserError):  # only a list lacks it then
        versions = {**known_versions(state), **found}
        write_private(state, {VERSIONS: json.dumps(versions, indent=2, sort_keys=True) + "\n"})
