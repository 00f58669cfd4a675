"""List the stacks of this machine: what the engine has, beside what the user trusted."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.engines.container import Container, StackFound, Usage
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.images import OURS
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import Clone, clone_at
from agent_sandbox.project.installed import images_of, is_name_of, removal_of, trusted_projects
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import Store
from agent_sandbox.stack.recorded import Owner

GONE = "its directory is gone: agent-sandbox destroy --orphans"
UNKNOWN = "its directory is unknown: another user's, or never trusted here"
AWAY = "its directory and all beside it are gone, as on a drive that is not mounted; to remove the stack: {}"
OTHER = "its directory has the stack {} now: agent-sandbox destroy --orphans"
OUTDATED = "its images are outdated: agent-sandbox up"

type Ask = Callable[[Container], Mapping[str, Any]]


class ListedStack(Struct, frozen=True, kw_only=True):
    """One stack. `memory` and `disk` are in bytes, `denied` counts requests; None: unknown or not running.

    `orphaned`: the user trusted it, and its directory is gone, or has a stack of another name that the user trusted.
    """

    name: str
    root: Path | None
    agents: tuple[str, ...]
    state: str
    since: datetime | None
    memory: int | None
    disk: int | None
    denied: int | None
    orphaned: bool
    notes: tuple[str, ...]
    clone: Clone | None = None


def list_stacks(driver: Driver, store: Store, *, ask: Ask, disk: bool = True) -> tuple[ListedStack, ...]:
    """Return every stack on the engine; `ask` asks a running proxy for its status. Without `disk`, it is unknown."""
    found = driver.stacks()
    projects = trusted_projects(store)
    with _questions() as pool:  # the engine measures for two seconds
        used = pool.submit(driver.usage, [container for stack in found for container in stack.containers], disk=disk)
        denied = pool.map(lambda stack: _denied(stack.containers, ask), found)
        current = _current_images(driver, projects.values())
        usage = used.result()
    return tuple(_listed(one, projects, usage, current, many) for one, many in zip(found, denied, strict=True))


@contextmanager
def _questions() -> Iterator[ThreadPoolExecutor]:
    """Yield a pool whose waiting questions are dropped if the block fails: Ctrl-C ends those that run."""
    with ThreadPoolExecutor() as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def orphans(driver: Driver, store: Store) -> tuple[StackFound, ...]:
    """Return the stacks whose directory is gone or has another stack, but none whose directory is unknown."""
    projects = trusted_projects(store)
    return tuple(stack for stack in driver.stacks() if _is_orphaned(stack, projects))


def without_directory(name: str) -> Project:
    """Return a project that is only a name, for commands that find a stack by it."""
    return Project(root=Path("/"), name=name, agents=(), owner=Owner(), images=(), files=())


def _listed(
    stack: StackFound, projects: Mapping[str, Project], usage: Usage, current: Mapping[str, bool], denied: int | None
) -> ListedStack:
    project = projects.get(stack.name)
    agent = next((one for one in stack.containers if one.service == "agent"), None)
    return ListedStack(
        name=stack.name,
        root=_root(stack, project),
        agents=project.agents if project else (),
        state=_state(stack.containers),
        since=agent.started if agent and agent.state == "running" else None,
        memory=_memory(stack.containers, usage),
        disk=None if usage.disk is None else sum(usage.disk.get(name, 0) for name in stack.volumes),
        denied=denied,
        orphaned=_is_orphaned(stack, projects),
        notes=tuple(_notes(stack, projects, current)),
        clone=_clone(project) if project else None,
    )


def _clone(project: Project) -> Clone | None:
    try:
        return clone_at(project.root, os.environ)
    except UserError:  # a damaged record is reported by commands for the clone
        return None


def _root(stack: StackFound, project: Project | None) -> Path | None:
    """Return the directory that the user trusted, or the one that the containers name."""
    if project:
        return project.root
    return Path(stack.directory).parent if stack.directory else None


def _is_orphaned(stack: StackFound, projects: Mapping[str, Project]) -> bool:
    """Return whether a stack has lost its directory: by what the user trusted, because anyone can write labels."""
    project = projects.get(stack.name)
    return is_gone(project.root) if project else _successor(stack, projects) is not None


def _successor(stack: StackFound, projects: Mapping[str, Project]) -> Project | None:
    """Return the trusted project with another name that has the stack's directory now."""
    root = _root(stack, None)
    if root is None or not is_name_of(stack.name, root):
        return None
    return next((project for project in projects.values() if project.root == root), None)


def is_gone(root: Path) -> bool:
    """Return whether a directory was removed: not if it cannot be reached, or is on a drive that is not mounted."""
    try:
        return not stat.S_ISDIR(root.stat().st_mode)
    except FileNotFoundError:
        return _has_files(root.parent)
    except OSError:
        return False


def _has_files(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is not None
    except OSError:
        return False


def _state(containers: Sequence[Container]) -> str:
    if not containers:
        return "down"
    if all(one.ready for one in containers):
        return "running"
    worst = next(one for one in containers if not one.ready)
    return f"{worst.service} {worst.condition}"


def _memory(containers: Sequence[Container], usage: Usage) -> int | None:
    if usage.memory is None or not any(one.id in usage.memory for one in containers):
        return None
    return sum(usage.memory.get(one.id, 0) for one in containers)


def _denied(containers: Sequence[Container], ask: Ask) -> int | None:
    proxy = next((one for one in containers if one.service == "proxy" and one.state == "running"), None)
    if proxy is None:
        return None
    try:
        return int(ask(proxy)["requests"]["denied"])
    except (UserError, LookupError, TypeError, ValueError):
        return None


def _notes(stack: StackFound, projects: Mapping[str, Project], current: Mapping[str, bool]) -> Iterator[str]:
    project = projects.get(stack.name)
    root, successor = _root(stack, project), None if project else _successor(stack, projects)
    if successor:
        yield OTHER.format(successor.name)
    elif root is None or not (project or os.path.isdir(root)):
        yield UNKNOWN
    elif is_gone(root):
        yield GONE
    elif not os.path.exists(root):
        yield AWAY.format(removal_of(stack.name))
    elif project and stack.containers and not all(current.get(image, True) for image in project.images):
        yield OUTDATED


def _current_images(driver: Driver, projects: Iterable[Project]) -> dict[str, bool]:
    """Return whether each image of these projects was built from this version's files."""
    wanted: dict[str, str] = {}
    for project in projects:
        try:
            wanted |= {image.name: image.digest for image in images_of(project)}
        except UserError:  # made by another version: `up` says how to update it
            wanted |= {name: "" for name in project.images if name.startswith(OURS)}
    return {name: wanted[name] in digests for name, digests in driver.images(wanted).items()}
