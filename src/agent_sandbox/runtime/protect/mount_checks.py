"""Find gaps in a project's protection: lost mounts, and paths without a mount."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.project.installed import read_stack_file
from agent_sandbox.runtime.protect.protected import UNPRINTABLE, candidates, spelled
from agent_sandbox.stack.services.agent import HEALTHY, WORKSPACE

# Exit codes of the check in the container: lost mounts, and no way to the proxy.
LOST, CUT_OFF = 1, 2
REPLACED = "replaced on the host machine, so the agent can write it now"
LOOK = "check it, then run agent-sandbox up: it recreates the agent container and protects the file again"
STRANGER = "another container is in the agent's network; only the firewall's rules keep them apart"
CONNECTED = "the agent is connected to another network; only the firewall's rules block it"
SHARING = (
    "another container shares a network namespace of the stack, and so the loopback interface of the agent or the proxy"
)
MADE = "created after `init`, so the agent can write it"
LINK = "a symbolic link, which is not followed, so the agent can replace it"
UNSEARCHED = "not searched for repositories: the project has too many directories, or these cannot be listed"
SEARCH = (
    "move large directories (dependencies, build output) out of the project or make these readable, then run it again; "
    "until then use git in them only inside the container"
)
NAMED = 5  # paths
TWO_NAMES = "the file has a second hard link: a write through it changes this file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What the agent container has lost: mounts, by path, and its way to the proxy, with the reason.

    `silent`: the container does not report. The agent can cause that by ending the check or using up all processes.
    """

    lost: tuple[str, ...] = ()
    cut_off: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected:
    """A path that programs on the host machine act on and the agent can write."""

    path: str
    why: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The unprotected paths of a project, and the directories that were not searched."""

    unprotected: tuple[Unprotected, ...] = ()
    unsearched: tuple[str, ...] = ()


def look_inside(driver: Driver, found: Sequence[Container]) -> Inside:
    """Return what the running agent container has lost, as a script of its image reports."""
    for container in found:
        if container.service == "agent" and container.state == "running":
            done = driver.run_in(container, HEALTHY)
            lost = tuple(filter(_is_of_the_project, done.out.splitlines())) if done.code == LOST else ()
            cut_off = done.out.strip() if done.code == CUT_OFF else ""
            return Inside(lost=lost, cut_off=cut_off, silent=done.code != 0 and not (lost or cut_off))
    # A container in state "created" has never run.
    return Inside(silent=any(one.service == "agent" and one.state != "created" for one in found))


def _is_of_the_project(path: str) -> bool:
    """Return whether a reported path is inside the project; the agent may have forged it."""
    place = PurePosixPath(path)
    return bool(place.parts) and not place.is_absolute() and ".." not in place.parts


def look_over(root: Path) -> Gaps:
    """Return the paths that should be protected but are not in the compose file, and the unsearched directories."""
    mounted = read_only_mounts(read_stack_file(root))
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
    """Return the first of many paths and the number of others, as text."""
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
    """Return whether a file has a second hard link, which no mount covers."""
    try:
        found = (root / path).stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def read_only_mounts(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the paths, relative to the workspace, that a parsed compose file mounts read-only.

    Compose doubles a `$` in a path.
    """
    try:
        volumes = document["services"]["agent"]["volumes"]
        said = [volume["target"].replace("$$", "$") for volume in volumes if volume.get("read_only") == "true"]
        targets = [PurePosixPath(target) for target in said]
    except (LookupError, TypeError, AttributeError):
        return frozenset()
    paths = (str(target.relative_to(WORKSPACE)) for target in targets if target.is_relative_to(WORKSPACE))
    return frozenset(filter(_is_of_the_project, paths))
