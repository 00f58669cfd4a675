import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.review.changes import save_baseline, take
from agent_sandbox.features.stack.commands.down import down
from clone_worlds import with_clones
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers, with_running


def test_down_removes_containers_and_keeps_volumes(project: Path, docker: FakeDocker) -> None:
    docker.says("ps --all").says("compose")
    assert exit_code(down) == 0
    assert docker.calls[1:] == [f"{compose_line(project)} down --remove-orphans"]


def test_reports_how_many_containers_were_removed(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy", agent="exited").says("compose")
    assert exit_code(down) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "stopped app-1: 2 containers removed; its volumes stay"
    assert exit_code(lambda: down(quiet=True)) == 0
    assert capsys.readouterr() == ("", "")


def test_reports_files_to_review_in_one_line(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    save_baseline(project, os.environ, take(project))
    (project / "Makefile").write_text("all:\n")
    docker.says("ps --all").says("compose")
    assert exit_code(down) == 0
    line = "review: 1 file that would run outside changed: agent-sandbox review"
    assert capsys.readouterr().err.splitlines() == [line, "app-1 was not running"]
    assert exit_code(lambda: down(quiet=True)) == 0
    assert capsys.readouterr().err == ""


def test_reports_that_the_stack_was_not_running(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("ps --all").says("compose")
    assert exit_code(down) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "app-1 was not running"


@pytest.fixture
def clones(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make three clones of the project."""
    with_clones(project, tmp_path_factory.mktemp("clones"), monkeypatch, "fix-1", "fix-2", "fix-3")


@pytest.mark.usefixtures("clones")
def test_names_running_clones_with_the_command_that_stops_them(
    docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    with_running(docker, "app-fix-2-", "app-fix-3-").says("compose")
    assert exit_code(down) == 0
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "app-1 was not running",
        "its clones still run: fix-2, fix-3; to stop one: agent-sandbox down --path fix-2",
    ]
    assert exit_code(lambda: down(path=Path("fix-2"))) == 0
    assert "its clones" not in capsys.readouterr().err
