import os
import signal
from pathlib import Path

import pytest

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.throw_away import thrown_away
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.installed import open_project
from fake_docker import FakeDocker
from fake_stack import compose_line

LEFT = "volume prune --all --force --filter label=com.docker.compose.project=app-1"


def nothing() -> None:
    """Have all images already."""


@pytest.fixture
def stack(project: Path, docker: FakeDocker) -> Project:
    """A project without anything on the engine yet."""
    docker.says("ps --all").says("network ls").says("volume ls").says(LEFT).says("compose")
    return open_project(project, cwd=project)


def removed(docker: FakeDocker) -> bool:
    return docker.calls[-2:] == [f"{compose_line(Path.cwd())} down --remove-orphans --volumes", LEFT]


def test_removes_the_stack_and_restores_the_files(stack: Project, docker: FakeDocker) -> None:
    (stack.root / "Makefile").write_text("all:")
    with thrown_away(stack, build=nothing, quiet=True) as before:
        assert not removed(docker)
    assert removed(docker)
    assert set(before.files) == {"Makefile"}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), UserError([])])
def test_removes_the_stack_even_if_the_block_raises(stack: Project, docker: FakeDocker, error: BaseException) -> None:
    with pytest.raises(type(error)), thrown_away(stack, build=nothing, quiet=True):
        raise error
    assert removed(docker)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_block_and_the_next_ones_do_not_stop_the_removal(
    stack: Project, docker: FakeDocker, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    # As a CI system does: it signals again while the stack is removed.
    docker.rules.clear()
    script = f"kill -{number.name.removeprefix('SIG')} {os.getpid()}"
    docker.says("ps --all").says("network ls").says("volume ls").says(LEFT).says("compose", script=script)
    with pytest.raises(KeyboardInterrupt), thrown_away(stack, build=nothing, quiet=True):
        signal.raise_signal(number)
    assert removed(docker)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("kind", ["ps --all", "network ls", "volume ls"])
def test_keeps_a_sandbox_that_has_state(project: Path, docker: FakeDocker, kind: str) -> None:
    docker.says(kind, out="one\n").says("ps --all").says("network ls").says("volume ls")
    stack = open_project(project, cwd=project)
    with pytest.raises(UserError) as refused, thrown_away(stack, build=nothing):
        raise AssertionError
    noun = {"ps --all": "container", "network ls": "network", "volume ls": "volume"}[kind]
    (problem,) = refused.value.problems
    assert (problem.where, problem.what, problem.hint) == (
        "app-1",
        f"this project has a sandbox, and --rm would remove its state: 1 {noun}",
        "leave out --rm, use another checkout, or remove it first: agent-sandbox destroy",
    )
    assert not any("down" in call for call in docker.calls)


def test_keeps_a_sandbox_that_was_started_during_the_build(stack: Project, docker: FakeDocker) -> None:
    def build() -> None:
        docker.rules.clear()
        docker.says("ps --all", out="one\n").says("network ls").says("volume ls")

    with pytest.raises(UserError, match="this project has a sandbox"), thrown_away(stack, build=build):
        raise AssertionError
    assert not removed(docker)
