import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.shell import shell
from agent_sandbox.runtime.project.trust_store import open_store
from fake_docker import FakeDocker
from fake_stack import with_containers


def test_a_shell_is_zsh_in_the_agents_container(project: Path, docker: FakeDocker, became: list[str]) -> None:
    with_containers(docker, agent="healthy")
    assert exit_code(shell) == 0
    assert became == [f"docker exec --interactive agent0000000 /usr/local/lib/agent-sandbox/enter zsh in {project}"]


def test_a_stack_that_is_down_is_told(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(shell) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"


def test_a_changed_stack_is_entered_as_it_was_trusted(project: Path, docker: FakeDocker, became: list[str]) -> None:
    with_containers(docker, agent="healthy")
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(shell) == 0
    assert became[0].startswith("docker exec --interactive agent0000000 ")


def test_a_stack_that_nobody_has_looked_at_is_not_entered(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(os.environ).forget(project)
    assert exit_code(shell) == 1
    assert "; there is no terminal to ask on\n" in capsys.readouterr().err
    assert docker.calls == []
