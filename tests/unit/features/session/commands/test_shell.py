import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.session.commands.shell import shell
from agent_sandbox.project.trust_store import open_store
from fake_docker import FakeDocker
from fake_stack import with_containers


@pytest.mark.usefixtures("project")
def test_starts_zsh_in_the_agent_container(docker: FakeDocker, became: list[str]) -> None:
    with_containers(docker, agent="healthy")
    assert exit_code(shell) == 0
    assert became == ["docker exec --interactive agent0000000 /usr/local/lib/agent-sandbox/enter zsh"]


def test_reports_a_stack_that_is_not_running(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(shell) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"


def test_enters_a_stack_whose_compose_file_changed_since_it_was_trusted(
    project: Path, docker: FakeDocker, became: list[str]
) -> None:
    with_containers(docker, agent="healthy")
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(shell) == 0
    assert became[0].startswith("docker exec --interactive agent0000000 ")


def test_refuses_to_enter_a_stack_that_is_not_trusted(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(os.environ).forget(project)
    assert exit_code(shell) == 1
    assert "; there is no terminal to ask on\n" in capsys.readouterr().err
    assert docker.calls == []
