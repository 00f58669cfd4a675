"""Find and load agent manifests: those of `templates/`, and the user's own.

A folder of agents has a folder for each agent, with an `agent.yaml` and, for a PyPI package, its `requirements.txt`.
"""

import re
from difflib import get_close_matches
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policyfile.text.document import parse_document
from agent_sandbox.problems import Problem, UserError

if TYPE_CHECKING:
    from agent_sandbox.agents.manifest import AgentManifest

MANIFEST = "agent.yaml"
LOCK = "requirements.txt"
# As the built-in manifests write it.
HOST_READS = re.compile(r"^host_reads:\n((?: .*\n)+)", re.MULTILINE)


class HostRead(Struct, frozen=True, kw_only=True):
    """A path of a project from which an agent, started on the host machine, would run something."""

    path: str
    why: str


def known_agents(*folders: Path) -> tuple[str, ...]:
    """Return the names of all agents, sorted; folders that start with `_` contain shared files."""
    return tuple(sorted({path.parent.name for folder in folders for path in folder.glob(f"[!_.]*/{MANIFEST}")}))


@cache  # they never change while the program runs
def host_reads(folder: Path) -> tuple[HostRead, ...]:
    """Return the `host_reads` of all built-in agents. Only these lines are parsed, because most commands need them."""
    texts = ((folder / agent / MANIFEST).read_text(encoding="utf-8") for agent in known_agents(folder))
    rows: Any = parse_document("".join(rows for text in texts for rows in HOST_READS.findall(text)), file="").value
    return tuple(HostRead(**row) for row in rows)


def load_manifest(folder: Path, agent: str, *own: Path) -> "AgentManifest":
    """Return an agent's manifest from `folder`, or else from the user's `own` folders.

    For an unknown agent, raise UserError with the known ones and the nearest; likewise for one of the user's that has
    the name of a shipped one.
    """
    known = {place: known_agents(place) for place in (folder, *own)}
    places = [place / agent / MANIFEST for place, agents in known.items() if agent in agents]
    if not places:
        raise UserError([_unknown(agent, tuple(sorted({*chain.from_iterable(known.values())})))])
    if len(places) > 1:
        hint = "rename your folder, and the `name` in the file"
        raise UserError([Problem(where=str(places[1]), what=f"`{agent}` is the name of a built-in agent", hint=hint)])
    return _read(places[0], agent)


def _read(path: Path, agent: str) -> "AgentManifest":
    from agent_sandbox.agents.manifest import parse_manifest  # noqa: PLC0415 - most commands load no manifest

    try:
        content, lock = path.read_bytes(), path.with_name(LOCK)
        text = lock.read_text(encoding="utf-8", errors="replace") if lock.is_file() else ""
    except OSError as error:
        raise UserError([Problem(where=str(path), what=f"cannot be read: {error.strerror}")]) from error
    manifest = parse_manifest(decode_policy(content, file=str(path)), file=str(path), lock=text)
    if manifest.name != agent:
        raise UserError([Problem(where=str(path), what=f"`name` is `{manifest.name}`, but the folder is `{agent}`")])
    return manifest


def _unknown(agent: str, known: tuple[str, ...]) -> Problem:
    nearest = get_close_matches(agent.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean `{nearest[0]}`? " if nearest else ""
    return Problem(where="", what=f"no such agent `{agent}`", hint=f"{guess}known agents: {', '.join(known)}")
