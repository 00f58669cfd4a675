"""List the stacks of this machine: what the engine has, beside what the user trusted."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_sandbox.backends.project import Project
from agent_sandbox.images import DIGEST_LABEL
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.driver.container import Container, StackFound, Usage
from agent_sandbox.runtime.driver.protocol import Driver
from agent_sandbox.runtime.project.installed import images_of, parse_project, trusted_projects
from agent_sandbox.runtime.project.root import STACK_FILE
from agent_sandbox.runtime.project.trust_store import Store
from agent_sandbox.stack.workspace import Owner

GONE = "its directory is gone: agent-sandbox destroy --orphans"
UNKNOWN = "its directory is unknown: another user's, or never trusted here"
OTHER = "its directory has the stack {} now: agent-sandbox destroy --orphans"
OUTDATED = "its images are outdated: agent-sandbox up"

type Ask = Callable[[Container], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStack:
    """One stack. `memory` and `disk` are in bytes, `denied` counts requests; None: unknown or not running.

    `orphaned`: its directory is gone, or has a stack of another name.
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


def list_stacks(driver: Driver, store: Store, *, ask: Ask) -> tuple[ListedStack, ...]:
    """Return every stack on the engine; `ask` asks a running proxy for its status."""
    found = driver.stacks()
    projects = trusted_projects(store)
    usage = driver.usage([container for stack in found for container in stack.containers])
    current = _current_images(driver, projects.values())
    return tuple(_listed(stack, projects.get(stack.name), usage, current, ask) for stack in found)


def orphans(driver: Driver, store: Store) -> tuple[StackFound, ...]:
    """Return the stacks whose directory is gone or has another stack, but none whose directory is unknown."""
    projects = trusted_projects(store)
    return tuple(stack for stack in driver.stacks() if _orphaned(_root(stack, projects.get(stack.name)), stack.name))


def without_directory(name: str) -> Project:
    """Return a project that is only a name, for commands that find a stack by it."""
    return Project(root=Path("/"), name=name, agents=(), owner=Owner(), images=(), files=())


def _listed(
    stack: StackFound, project: Project | None, usage: Usage, current: Mapping[str, bool], ask: Ask
) -> ListedStack:
    root = _root(stack, project)
    agent = next((one for one in stack.containers if one.service == "agent"), None)
    orphaned = _orphaned(root, stack.name)
    return ListedStack(
        name=stack.name,
        root=root,
        agents=project.agents if project else (),
        state=_state(stack.containers),
        since=agent.started if agent and agent.state == "running" else None,
        memory=_memory(stack.containers, usage),
        disk=None if usage.disk is None else sum(usage.disk.get(name, 0) for name in stack.volumes),
        denied=_denied(stack.containers, ask),
        orphaned=orphaned,
        notes=tuple(_notes(stack, root, project, current, orphaned=orphaned)),
    )


def _root(stack: StackFound, project: Project | None) -> Path | None:
    """Return the directory that the user trusted, or the one that the containers name."""
    if project:
        return project.root
    return Path(stack.directory).parent if stack.directory else None


def _orphaned(root: Path | None, name: str) -> bool:
    return root is not None and (not root.is_dir() or _name_in(root) not in (name, ""))


def _name_in(root: Path) -> str:
    """Return the name of the stack in a directory, or an empty string if its file cannot be read."""
    try:
        return parse_project(root, (root / STACK_FILE).read_text(encoding="utf-8"), files=()).name
    except (OSError, ValueError, UserError):
        return ""


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


def _notes(
    stack: StackFound, root: Path | None, project: Project | None, current: Mapping[str, bool], *, orphaned: bool
) -> Iterator[str]:
    if root is None:
        yield UNKNOWN
    elif orphaned:
        yield OTHER.format(_name_in(root)) if root.is_dir() else GONE
    elif project and stack.containers and not all(current.get(image, True) for image in project.images):
        yield OUTDATED


def _current_images(driver: Driver, projects: Iterable[Project]) -> dict[str, bool]:
    """Return whether each image of these projects was built from this version's files."""
    wanted: dict[str, str] = {}
    for project in projects:
        try:
            wanted |= {image.name: image.digest for image in images_of(project)}
        except UserError:  # made by another version: `up` says how to update it
            wanted |= dict.fromkeys(project.images, "")
    labels = driver.labels_of(tuple(wanted)) if wanted else {}
    return {name: found.get(DIGEST_LABEL) == wanted[name] for name, found in labels.items()}
