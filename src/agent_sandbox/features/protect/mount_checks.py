"""Ask the agent container which mounts it has lost."""

import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_sandbox.project.installed import read_facts
from agent_sandbox.stack.containers import HEALTHY
from agent_sandbox.stack.recorded import is_inside

if TYPE_CHECKING:
    from agent_sandbox.engines.container import Container
    from agent_sandbox.engines.protocol import Driver

# Exit codes of the check in the container: lost mounts, and no way to the proxy.
LOST, CUT_OFF = 1, 2
MOST_BYTES, LONGEST_REASON = 1 << 20, 200  # of its output
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
            done = driver.spawn(container, HEALTHY).capture(most=MOST_BYTES)
            lost = tuple(_reported(done.out.splitlines(), root)) if done.code == LOST else ()
            # One line: the agent may have forged more, which would look like our own.
            cut_off = " ".join(done.out.split())[:LONGEST_REASON] if done.code == CUT_OFF else ""
            return Inside(lost=lost, cut_off=cut_off, silent=done.code != 0 and not (lost or cut_off))
    # A container in state "created" has never run.
    return Inside(silent=any(one.service == "agent" and one.state != "created" for one in found))


def _reported(paths: Iterable[str], root: Path) -> Iterator[str]:
    """Yield the reported paths of the project and of its repository; the agent may have forged others."""
    outside: frozenset[str] | None = None
    for path in paths:
        if path.startswith("/") and outside is None:
            outside = frozenset(one for one in read_facts(root).protected if one.startswith("/"))
        if is_inside(path) or (outside and path in outside):
            yield path


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
