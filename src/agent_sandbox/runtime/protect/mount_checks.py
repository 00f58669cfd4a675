"""Find gaps in a project's protection: lost mounts, and paths without a mount."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from agent_sandbox.runtime.git.repositories import WORKTREES
from agent_sandbox.runtime.git.worktree import Outside
from agent_sandbox.runtime.project.installed import read_stack_file
from agent_sandbox.runtime.protect.protected import UNPRINTABLE, Candidates, candidates, candidates_outside, spelled
from agent_sandbox.stack.model import MountKind
from agent_sandbox.stack.services.agent import HEALTHY, NOTHING, PROTECTED, WORKSPACE
from agent_sandbox.stack.workspace import Access

if TYPE_CHECKING:
    from agent_sandbox.runtime.driver.container import Container
    from agent_sandbox.runtime.driver.protocol import Driver

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


def look_inside(driver: "Driver", found: "Sequence[Container]", root: Path) -> Inside:
    """Return what the running agent container of the project has lost, as a script of its image reports."""
    for container in found:
        if container.service == "agent" and container.state == "running":
            done = driver.run_in(container, HEALTHY)
            lost = tuple(_reported(done.out.splitlines(), root)) if done.code == LOST else ()
            cut_off = done.out.strip() if done.code == CUT_OFF else ""
            return Inside(lost=lost, cut_off=cut_off, silent=done.code != 0 and not (lost or cut_off))
    # A container in state "created" has never run.
    return Inside(silent=any(one.service == "agent" and one.state != "created" for one in found))


def _reported(paths: Iterable[str], root: Path) -> Iterator[str]:
    """Yield the reported paths of the project and of its repository; the agent may have forged others."""
    outside: frozenset[str] | None = None
    for path in paths:
        if path.startswith("/") and outside is None:
            outside = frozenset(one for one in read_only_mounts(read_stack_file(root)) if one.startswith("/"))
        if _is_of_the_project(path) or (outside and path in outside):
            yield path


def _is_of_the_project(path: str) -> bool:
    """Return whether a path is inside the project."""
    place = PurePosixPath(path)
    return bool(place.parts) and not place.is_absolute() and ".." not in place.parts


def look_over(root: Path) -> Gaps:
    """Return the paths that should be protected but are not in the stack file, and the unsearched directories."""
    document = read_stack_file(root)
    if is_in_volume(document):
        return Gaps()
    mounted = read_only_mounts(document)
    parts = (("", candidates(root)), *_outside(mounted))
    return Gaps(
        unprotected=tuple(
            Unprotected(path=spelled(f"{base}{path}"), why=one.why, because=because)
            for base, part in parts
            for path, one in sorted({one.path: one for one in part.rows if one.access is Access.READ}.items())
            if os.path.exists(root / f"{base}{path}") or not one.always
            if (because := _because(root, base, path, mounted))
        ),
        unsearched=tuple(spelled(f"{base}{path}") for base, part in parts for path in part.unsearched),
    )


def is_in_volume(document: Mapping[str, Any]) -> bool:
    """Return whether a stack's workspace is a clone in a volume: nothing that it contains is on the host machine."""
    try:
        volumes = document["services"]["agent"]["volumes"]
        return any(one.get("target") == WORKSPACE and one.get("type") == MountKind.VOLUME for one in volumes)
    except (LookupError, TypeError, AttributeError):
        return False


def mounted_outside(mounted: Iterable[str]) -> Outside | None:
    """Return the mounted repository of a worktree, as the paths that are mounted read-only show it.

    What is on the disk does not count: the agent can change it so that the repository would no longer be recognised.
    """
    places = sorted(PurePosixPath(path) for path in mounted if path.startswith("/"))
    for own in (place.parent for place in places if place.name == "commondir"):
        if own.parent.name == WORKTREES and own.parent.parent in places:
            return Outside(common=Path(own.parent.parent), name=own.name)
    return None


def _outside(mounted: frozenset[str]) -> Iterator[tuple[str, Candidates]]:
    """Yield what to protect in the repository of a worktree, if it is mounted, with the directory of the paths."""
    outside = mounted_outside(mounted)
    if outside is not None:
        yield from ((f"{part.root}/", part) for part in candidates_outside(outside))


def listed(paths: Sequence[str]) -> str:
    """Return the first of many paths and the number of others, as text."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"


def _because(root: Path, base: str, path: str, mounted: frozenset[str]) -> str:
    if not path.isprintable():
        return UNPRINTABLE
    whole = PurePosixPath(f"{base}{path}")
    steps = [str(whole), *(f"{base}{step}" for step in PurePosixPath(path).parents if step.parts)]
    if not mounted.intersection(steps):
        return LINK if any(os.path.islink(root / step) for step in steps) else MADE
    return TWO_NAMES if has_two_names(root, f"{base}{path}") else ""


def has_two_names(root: Path, path: str) -> bool:
    """Return whether a file has a second hard link, which no mount covers."""
    try:
        found = (root / path).stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def _is_wall(volume: Mapping[str, Any]) -> bool:
    return volume.get("read_only") == "true" and volume.get("source") != NOTHING  # which only hides what is there


def read_only_mounts(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the protected paths that a parsed stack file mounts read-only: those outside the workspace are absolute.

    In the file, a `$` in a path is doubled.
    """
    try:
        agent = document["services"]["agent"]
        said = [volume["target"].replace("$$", "$") for volume in agent["volumes"] if _is_wall(volume)]
        targets = [PurePosixPath(target) for target in said]
        protected = str(agent.get("environment", {}).get(PROTECTED, "")).replace("$$", "$").split("\n")
    except (LookupError, TypeError, AttributeError):
        return frozenset()
    inside = (str(target.relative_to(WORKSPACE)) for target in targets if target.is_relative_to(WORKSPACE))
    outside = (str(target) for target in targets if f"{Access.READ} {target}" in protected)
    return frozenset((*filter(_is_of_the_project, inside), *outside))
