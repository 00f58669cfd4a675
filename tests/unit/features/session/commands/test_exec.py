import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.session.commands.exec import exec as execute
from agent_sandbox.host import attached
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.containers import ENTER
from fake_docker import FakeDocker
from fake_stack import with_containers

NOT_READY = "  hint: agent-sandbox up starts it; agent-sandbox logs agent shows why it is not ready\n"


@pytest.mark.usefixtures("project")
def test_the_command_runs_in_the_known_container(docker: FakeDocker, became: list[str]) -> None:
    with_containers(docker, agent="healthy")
    execute(["ls", "-l"])
    assert became == [f"docker exec --interactive agent0000000 {ENTER} ls -l"]


def test_exits_with_the_exit_code_of_the_command(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.exists()
    monkeypatch.setattr(attached, "run_attached", lambda *_, **__: 7)
    with_containers(docker, agent="healthy")
    with pytest.raises(SystemExit, match=r"^7$"):
        execute(["false"])


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"),
        (
            {"agent": "starting"},
            f"error: app-1: the agent is starting\n{NOT_READY}",
        ),
        (
            {"agent": "exited"},
            f"error: app-1: the agent is exited with code 1\n{NOT_READY}",
        ),
    ],
)
def test_reports_a_stack_that_is_not_ready(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], states: dict[str, str], expected: str
) -> None:
    assert project.exists()
    with_containers(docker, **states)
    assert exit_code(lambda: execute(["ls"])) == 1
    assert capsys.readouterr().err == expected


def test_suggested_commands_name_a_clone_that_is_not_ready(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agent_sandbox.features.stack.execute.path_option", lambda *_, **__: " --path fix-1")
    with_containers(docker, agent="exited")
    assert project.exists()
    assert exit_code(lambda: execute(["ls"])) == 1
    hint = "agent-sandbox up --path fix-1 starts it; agent-sandbox logs --path fix-1 agent shows why it is not ready"
    assert capsys.readouterr().err == f"error: app-1: the agent is exited with code 1\n  hint: {hint}\n"


def test_fails_with_the_path_of_a_lost_mount(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("exec agent0000000 /usr/local/lib/agent-sandbox/healthy", out=".git/config\n", code=1)
    with_containers(docker, agent="unhealthy")
    assert exit_code(lambda: execute(["ls"])) == 1
    assert capsys.readouterr().err == (
        "error: .git/config: replaced on the host machine, so the agent can write it now\n"
        "  hint: check it, then run agent-sandbox up: it recreates the agent container and protects the file again\n"
    )


def test_reports_an_agent_without_network(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("exec agent0000000 /usr/local/lib/agent-sandbox/healthy", out="the agent has no network\n", code=2)
    with_containers(docker, agent="unhealthy")
    assert exit_code(lambda: execute(["ls"])) == 1
    assert capsys.readouterr().err == "error: app-1: the agent has no network\n  hint: agent-sandbox up\n"


def test_dry_run_prints_the_command_without_calling_docker(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    assert exit_code(lambda: execute(["echo", "a b"], dry_run=True)) == 0
    assert capsys.readouterr().out.endswith("exec -T agent /usr/local/lib/agent-sandbox/enter echo 'a b'\n")
    assert docker.calls == []


def test_runs_in_a_stack_whose_compose_file_changed_since_it_was_trusted(
    project: Path, docker: FakeDocker, became: list[str]
) -> None:
    with_containers(docker, agent="healthy")
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(lambda: execute(["ls"])) == 0
    assert became == [f"docker exec --interactive agent0000000 {ENTER} ls"]


def test_refuses_to_run_in_a_stack_that_is_not_trusted(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(os.environ).forget(project)
    assert exit_code(lambda: execute(["ls"])) == 1
    assert "; there is no terminal to ask on\n" in capsys.readouterr().err
    assert docker.calls == []
