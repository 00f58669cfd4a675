"""Which walls of a project's workspace do not stand: mounts that ended, and what has none."""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.runtime.compose.containers import Container
from agent_sandbox.runtime.compose.engine import ask
from agent_sandbox.runtime.project.installed import read_compose
from agent_sandbox.runtime.protect.protected import UNPRINTABLE, candidates, spelled
from agent_sandbox.stack.naming import network_name
from agent_sandbox.stack.services.agent import HEALTHY, WORKSPACE

# The exit status of what looks, in the container: at mounts that ended, and at the way to the proxy.
LOST, CUT_OFF = 1, 2
REPLACED = "it was replaced on the host, and the agent can write it since"
LOOK = "look at it; then agent-sandbox up makes the agent's container anew, and protects it again"
STRANGER = "another container is in the agent's network: the firewall's rules alone keep them apart"
CONNECTED = "the agent is connected to another network: the firewall's rules alone keep it from there"
MADE = "it was made since `init`: the agent can write it"
LINK = "it is a link, which is not followed: the agent can put another one there"
UNSEARCHED = "not searched for repositories: the project has too many directories, or these can't be listed"
SEARCH = (
    "move large directories (dependencies, build output) out of the project or make these readable, then run it again; "
    "until then use git in them only inside the container"
)
NAMED = 5  # paths
TWO_NAMES = "the file has another name as well: what is written by that one stands here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What the agent's container does not have any more: mounts, by path, and its way to the proxy, by a reason.

    `silent` is one that does not tell. The agent can bring that about: by ending it, or by taking all processes.
    """

    lost: tuple[str, ...] = ()
    cut_off: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected:
    """A path that the host acts on, and that the agent can write."""

    path: str
    why: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What of a project is not protected, and the directories that nobody has looked into."""

    unprotected: tuple[Unprotected, ...] = ()
    unsearched: tuple[str, ...] = ()


def look_inside(found: Sequence[Container]) -> Inside:
    """Return what ended while the agent runs; asked in its container, by a file of its image."""
    for container in found:
        if container.service == "agent" and container.state == "running":
            done = ask("exec", container.id, HEALTHY)
            lost = tuple(filter(_is_of_the_project, done.out.splitlines())) if done.code == LOST else ()
            cut_off = done.out.strip() if done.code == CUT_OFF else ""
            return Inside(lost=lost, cut_off=cut_off, silent=done.code != 0 and not (lost or cut_off))
    # One that was only made has never run.
    return Inside(silent=any(one.service == "agent" and one.state != "created" for one in found))


def _is_of_the_project(path: str) -> bool:
    """Tell whether a path can be meant: it is read and shown, and somebody else may have named it."""
    place = PurePosixPath(path)
    return bool(place.parts) and not place.is_absolute() and ".." not in place.parts


def foreign_networks(found: Iterable[Container], project: str) -> tuple[str, ...]:
    """Return what to run for each network that somebody has connected the agent to: the firewall has its namespace."""
    return tuple(
        f"docker network disconnect {network} {container.id}"
        for container in found
        if container.service == "firewall"
        for network in container.networks
        if network != network_name(project)
    )


def strangers(found: Sequence[Container], project: str) -> tuple[str, ...]:
    """Return what to run for each container of others' that somebody has put into the stack's own network."""
    network = network_name(project)
    if not any(network in container.networks and container.state == "running" for container in found):
        return ()
    done = ask("network", "inspect", network, "--format", "{{json .Containers}}")
    members: Mapping[str, Mapping[str, str]] = read_json(done.out) or {} if done.code == 0 else {}
    own = tuple(container.id for container in found)
    return tuple(
        f"docker network disconnect {network} {member['Name']}"
        for identity, member in sorted(members.items())
        if not identity.startswith(own)
    )


def look_over(root: Path) -> Gaps:
    """Return what `init` would protect now, or could not, and the compose file does not; and what was not searched."""
    mounted = read_only_mounts(read_compose(root))
    searched = candidates(root)
    found = {one.path: one for one in searched.rows if os.path.exists(root / one.path) or not one.always}
    return Gaps(
        unprotected=tuple(
            Unprotected(path=spelled(path), why=one.why, because=because)
            for path, one in sorted(found.items())
            if (because := _because(root, path, mounted))
        ),
        unsearched=tuple(map(spelled, searched.unsearched)),
    )


def listed(paths: Sequence[str]) -> str:
    """Name the first of many paths, and count the others."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"


def _because(root: Path, path: str, mounted: frozenset[str]) -> str:
    if not path.isprintable():
        return UNPRINTABLE
    steps = (PurePosixPath(path), *PurePosixPath(path).parents)
    if not any(str(step) in mounted for step in steps):
        return LINK if any(os.path.islink(root / step) for step in steps if step.parts) else MADE
    return TWO_NAMES if has_two_names(root, path) else ""


def has_two_names(root: Path, path: str) -> bool:
    """Say whether a file can be written by another name, which no mount is over."""
    try:
        found = (root / path).stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def read_only_mounts(document: Mapping[str, Any]) -> frozenset[str]:
    """Return what of the workspace a compose file, read as text, mounts read-only; relative to it.

    Compose writes a `$` of a path twice.
    """
    try:
        volumes = document["services"]["agent"]["volumes"]
        said = [volume["target"].replace("$$", "$") for volume in volumes if volume.get("read_only") == "true"]
        targets = [PurePosixPath(target) for target in said]
    except (LookupError, TypeError, AttributeError):
        return frozenset()
    paths = (str(target.relative_to(WORKSPACE)) for target in targets if target.is_relative_to(WORKSPACE))
    return frozenset(filter(_is_of_the_project, paths))
