from pathlib import Path

import pytest

from agent_sandbox.cli.down import down
from agent_sandbox.cli.framework.errors import exit_code
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers


def test_down_removes_containers_and_keeps_volumes(project: Path, docker: FakeDocker) -> None:
    docker.says("ps --all").says("compose")
    assert exit_code(down) == 0
    assert docker.calls[1:] == [f"{compose_line(project)} down --remove-orphans"]


def test_down_says_what_it_stopped(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy", agent="exited").says("compose")
    assert exit_code(down) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "stopped app-1: 2 containers removed; its volumes stay"
    assert exit_code(lambda: down(quiet=True)) == 0
    assert capsys.readouterr() == ("", "")


def test_down_says_that_nothing_ran(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("ps --all").says("compose")
    assert exit_code(down) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "app-1 was not running"
