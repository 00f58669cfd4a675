from pathlib import Path

import pytest

from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.shell import shell
from agent_sandbox.runtime import process
from fake_docker import FakeDocker
from fake_stack import with_containers


def test_a_shell_is_zsh_in_the_agents_container(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.exists()
    became: list[tuple[str, ...]] = []
    monkeypatch.setattr(process, "become", lambda argv, cwd: became.append((*argv, str(cwd))))
    with_containers(docker, agent="healthy")
    assert exit_code(shell) == 0
    assert became[0][-4:] == ("agent", "/usr/local/lib/agent-sandbox/enter", "zsh", str(project))


def test_a_stack_that_is_down_is_told(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(shell) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"


def test_an_edited_stack_is_not_taken_silently(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(shell) == 1
    expected = f"error: {file}: this file has been edited since agent-sandbox wrote it: what it says now could open"
    assert capsys.readouterr().err.splitlines()[0] == f"{expected} the box"
    assert docker.calls == []
