"""The stacks that one `watch` follows: a project's own and those of its clones, or all. Each has a connection."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from agent_sandbox.engines.container import Container
from agent_sandbox.features.stack.execute import driver, require_running
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import open_project, trusted_projects
from agent_sandbox.project.project import Project
from agent_sandbox.project.trust_store import open_store

NONE = Problem(where="", what="no stack is running", hint="agent-sandbox up, in a project; agent-sandbox ls lists all")
LOOK_SECONDS = 10.0  # between two looks for stacks that have started since

type Find = Callable[[], Iterable[Project]]


class WatchedStacks:
    """Watches each stack in a thread, over a connection that `connect` makes."""

    def __init__(
        self, connect: Callable[[Project], Connection], *, answers: bool, asks: bool, seconds: float = LOOK_SECONDS
    ) -> None:
        self._connect = connect
        self._answers, self._asks, self._seconds = answers, asks, seconds
        self._connections: dict[str, Connection] = {}
        self._over = threading.Event()

    def follow(self, first: Sequence[Project], find: Find) -> None:
        """Watch these stacks, and those that `find` returns later, until `end` is called."""
        for project in first:
            self._add(project)
        while not self._over.wait(self._seconds):
            with suppress(UserError):  # the engine does not answer now
                for project in find():
                    self._add(project)

    def _add(self, project: Project) -> None:
        if project.name not in self._connections and not self._over.is_set():
            connection = self._connections[project.name] = self._connect(project)
            threading.Thread(target=self._watch, args=(connection,), daemon=True).start()
            threading.Thread(target=connection.ports.follow, daemon=True).start()
            if self._over.is_set():  # `end` may have come before the connection was kept
                connection.end()

    def _watch(self, connection: Connection) -> None:
        while not self._over.is_set():
            with suppress(UserError):  # it has stopped since it was found
                connection.watch(answers=self._answers, asks=self._asks)
            self._over.wait(self._seconds)

    def end(self) -> None:
        """Stop watching."""
        self._over.set()
        for connection in (*self._connections.values(),):
            connection.end()


def chosen_stacks(path: Path | None, *, all_stacks: bool) -> tuple[Sequence[Project], Find]:
    """Return what `running_stacks` does, and how to look again; raise UserError if nothing runs."""
    if path and all_stacks:
        raise UserError([Problem(where="--all", what="cannot be combined with --path", hint="leave one of them out")])
    project = None if all_stacks else open_project(path, cwd=Path.cwd())
    first = running_stacks(project)
    if project and not first:
        require_running(project, "proxy")
    if not first:
        raise UserError([NONE])
    return first, partial(running_stacks, project)


def running_stacks(project: Project | None) -> tuple[Project, ...]:
    """Return the running stacks of a project and its clones, its own first; without one, all that the user trusts."""
    if project is None:
        running = {stack.name for stack in driver().stacks() if _has_proxy(stack.containers)}
        return tuple(one for name, one in sorted(_trusted().items()) if name in running)
    clones = {clone.root for clone in clones_of(project.root, os.environ)}
    others = (one for _, one in sorted(_trusted().items()) if one.root in clones) if clones else ()
    return tuple(one for one in (project, *others) if _has_proxy(driver().observe(one.name)))


def _trusted() -> Mapping[str, Project]:
    return trusted_projects(open_store(os.environ))


def _has_proxy(found: Iterable[Container]) -> bool:
    return any(one.service == "proxy" and one.state == "running" for one in found)
