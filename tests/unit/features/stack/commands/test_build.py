import os
import signal
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.stack.commands.build import build
from agent_sandbox.images import base_name, proxy_name
from fake_docker import FakeDocker


def test_does_not_rebuild_images_that_are_up_to_date(
    up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(build) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"{proxy_name()} is up to date",
        f"{base_name()} is up to date",
    ]
    assert len(up_to_date.calls) == 1


def test_quiet_prints_nothing(up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert up_to_date.rules
    assert exit_code(lambda: build(quiet=True)) == 0
    assert capsys.readouterr() == ("", "")


def test_editor_build_fails_if_compose_project_name_differs_from_the_stack(
    project: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: build(editor=True, quiet=True)) == 0
    (project / ".env").write_text("COMPOSE_PROJECT_NAME=other\n")
    calls = len(up_to_date.calls)
    assert exit_code(lambda: build(editor=True)) == 1
    assert len(up_to_date.calls) == calls
    assert capsys.readouterr().err == (
        f"error: {project}: COMPOSE_PROJECT_NAME is other: an editor starts the stack under this name, "
        "where agent-sandbox does not find it\n"
        "  hint: name your own stack with `name:` in its compose file, "
        "and remove COMPOSE_PROJECT_NAME from .env or your shell\n"
    )
    assert exit_code(lambda: build(quiet=True)) == 0


def test_dry_run_prints_the_commands_without_calling_docker(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    assert exit_code(lambda: build(dry_run=True)) == 0
    out, err = capsys.readouterr()
    assert out.partition(" --target ")[0] == (f"docker build --progress plain --load --tag {proxy_name()}")
    assert (len(out.splitlines()), err, docker.calls) == (4, "", [])


def test_ctrl_c_ends_the_build_and_explains_how_the_next_build_continues(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert project.exists()
    ended = tmp_path / "ended"
    script = f"trap 'touch {ended}; exit 1' INT; echo '#1 [x 1/1] RUN x'; kill -INT {os.getpid()}; sleep 5 & wait"
    docker.says("build", script=script)
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code(lambda: build(no_cache=True)) == 130
    assert ended.exists()
    assert signal.getsignal(signal.SIGTERM) == before
    assert capsys.readouterr().err.splitlines()[-1] == (
        "interrupted: the current image was not built; the next build continues from the cache"
    )


def test_fails_outside_a_project_without_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(build) == 1
    assert capsys.readouterr().err.startswith(
        f"error: {tmp_path}: no stack in this directory, and no agent was named\n"
    )
