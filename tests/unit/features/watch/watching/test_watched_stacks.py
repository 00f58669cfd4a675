import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import override

import pytest
from msgspec.structs import replace

from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.watched_stacks import WatchedStacks, running_stacks
from agent_sandbox.images import proxy_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project import clone_record
from agent_sandbox.project.clone_record import new_clone, save_clone
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from fake_docker import FakeDocker
from fake_stack import inspected, trust, with_containers
from watching import RecordedPorts

PROJECT = "com.docker.compose.project"


class Watches(Connection):
    """A connection that cannot watch for the first `fails` times, and then watches until it is ended."""

    def __init__(self, project: Project, *, fails: int = 0) -> None:
        self.project, self.fails, self.ports = project, fails, RecordedPorts([])
        self.watched = threading.Event()
        self.over = threading.Event()

    @override
    def watch(self, *, answers: bool, asks: bool = False) -> None:
        """Wait."""
        assert (answers, asks) == (True, False)
        if self.fails:
            self.fails -= 1
            raise UserError([Problem(where=self.project.name, what="the stack is not running")])
        self.watched.set()
        self.over.wait(30)

    @override
    def end(self) -> None:
        """Stop waiting."""
        self.over.set()


def until(wanted: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_stacks_that_start_later_are_watched_once_each_and_one_that_is_down_is_tried_again() -> None:
    made: list[Watches] = []

    def connect(project: Project) -> Connection:
        made.append(Watches(project, fails=2 * (project.name == "a")))
        return made[-1]

    first, later = without_directory("a"), without_directory("b")
    looks: list[object] = [(first,), UserError([]), (first, later)]

    def find() -> tuple[Project, ...]:
        found = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(found, UserError):
            raise found
        assert isinstance(found, tuple)
        return found

    stacks = WatchedStacks(connect, answers=True, asks=False, seconds=0.01)
    following = threading.Thread(target=stacks.follow, args=((first,), find))
    following.start()
    until(lambda: len(made) == 2)
    assert all(one.watched.wait(30) for one in made)
    stacks.end()
    following.join(5)
    assert not following.is_alive()
    assert [(one.project.name, one.over.is_set()) for one in made] == [("a", True), ("b", True)]


def test_nothing_is_watched_after_the_end() -> None:
    stacks = WatchedStacks(Watches, answers=True, asks=False)
    stacks.end()
    stacks.follow((without_directory("a"),), tuple)
    assert stacks._connections == {}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("state", "runs"), [("healthy", True), ("unhealthy", True), ("exited", False)])
def test_watches_only_the_project_if_it_has_no_clones(docker: FakeDocker, state: str, *, runs: bool) -> None:
    mine = open_project(None, cwd=Path.cwd())
    with_containers(docker, proxy=state, agent="healthy")
    assert running_stacks(mine) == ((mine,) if runs else ())
    assert not [call for call in docker.calls if call.startswith("volume ls")]


def test_watches_running_clones_with_their_project(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(project)
    mine = open_project(None, cwd=Path.cwd())
    save_clone(new_clone(project, "fix-1", os.environ, title="app"))
    (clone,) = clone_record.clones_of(project, os.environ)
    other = without_directory("app-fix-1-2")
    found = {mine.name: mine, other.name: replace(other, root=clone.root), "z": other}
    monkeypatch.setattr("agent_sandbox.features.watch.watching.watched_stacks.trusted_projects", lambda _: found)
    with_containers(docker, proxy="healthy")
    assert [one.name for one in running_stacks(mine)] == ["app-1", "app-fix-1-2"]


def test_all_means_running_and_trusted_stacks(project: Path, docker: FakeDocker) -> None:
    trust(project)
    found = []
    for name, state in (("app-1", "healthy"), ("theirs", "healthy")):
        one = inspected("proxy", state)
        one["Config"] = {"Image": proxy_name(), "Labels": {"com.docker.compose.service": "proxy", PROJECT: name}}
        found.append(one)
    docker.says("volume ls")
    docker.says("ps --all --quiet", out="x\n")
    docker.says("inspect --type container", out=json.dumps(found))
    assert [one.name for one in running_stacks(None)] == ["app-1"]
