"""Ask the agent container which mounts it has lost, and read from a stack file which it has."""

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent_sandbox.render.paths import DOTENV
from agent_sandbox.runtime.project.installed import read_stack_file
from agent_sandbox.stack.containers import HEALTHY, NOTHING, PROTECTED, WORKSPACE
from agent_sandbox.stack.recorded import Access, MountKind

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
NAMED = 5  # paths


class Inside(Struct, frozen=True, kw_only=True):
    """The losses of the agent container: mounts, by path, and its way to the proxy, with the reason.

    `silent`: the container does not report. The agent can cause that by ending the check or using up all processes.
    """

    lost: tuple[str, ...] = ()
    cut_off: str = ""
    silent: bool = False


def look_inside(driver: "Driver", found: "Sequence[Container]", root: Path) -> Inside:
    """Return what the running agent container of the project has lost, as a script of its image reports."""
    for container in found:
        if container.service == "agent" and container.state == "running":
            done = driver.spawn(container, HEALTHY).capture()
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


def is_in_volume(document: Mapping[str, Any]) -> bool:
    """Return whether a stack's workspace is a clone in a volume: nothing that it contains is on the host machine."""
    try:
        volumes = document["services"]["agent"]["volumes"]
        return any(one.get("target") == WORKSPACE and one.get("type") == MountKind.VOLUME for one in volumes)
    except (LookupError, TypeError, AttributeError):
        return False


def listed(paths: Sequence[str]) -> str:
    """Return the first of many paths and the number of others, as text."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"


def has_two_names(root: Path, path: str) -> bool:
    """Return whether a file has a second hard link, which no mount covers."""
    try:
        found = (root / path).stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def _is_wall(volume: Mapping[str, Any]) -> bool:
    hides = volume.get("source") == NOTHING and volume.get("target") != f"{WORKSPACE}/{DOTENV}"
    return volume.get("read_only") == "true" and not hides


def masked_files(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the files of the project that a parsed stack file masks: the agent sees an empty one."""
    try:
        volumes = document["services"]["agent"]["volumes"]
        found = [one["target"].replace("$$", "$") for one in volumes if one.get("source") == NOTHING]
    except (LookupError, TypeError, AttributeError):
        return frozenset()
    return frozenset(path.removeprefix(f"{WORKSPACE}/") for path in found)


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
