from pathlib import Path

import pytest

from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.exec import exec as execute
from agent_sandbox.runtime import process
from agent_sandbox.stack.services.agent import ENTER
from fake_docker import FakeDocker
from fake_stack import with_containers

NOT_READY = "  hint: agent-sandbox up starts it, agent-sandbox logs agent shows why it is not ready\n"


class BecameError(Exception):
    """What stands for having become another program."""


def test_the_command_takes_our_place_in_the_projects_directory(
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become(argv: tuple[str, ...], *, cwd: Path) -> None:
        raise BecameError(argv, cwd)

    monkeypatch.setattr(process, "become", become)
    with_containers(docker, agent="healthy")
    with pytest.raises(BecameError) as raised:
        execute(["ls", "-l"])
    compose = ("docker", "compose", "--project-name", "app-1", "--file", ".devcontainer/docker-compose.yml")
    assert raised.value.args == ((*compose, "exec", "-T", "agent", ENTER, "ls", "-l"), project)


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
def test_a_stack_that_is_not_ready_is_one_message(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], states: dict[str, str], expected: str
) -> None:
    assert project.exists()
    with_containers(docker, **states)
    assert exit_code(lambda: execute(["ls"])) == 1
    assert capsys.readouterr().err == expected


def test_a_wall_that_is_gone_is_named_before_anything_runs(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("exec agent0000000 /usr/local/lib/agent-sandbox/healthy", out=".git/config\n", code=1)
    with_containers(docker, agent="unhealthy")
    assert exit_code(lambda: execute(["ls"])) == 1
    assert capsys.readouterr().err == (
        "error: .git/config: it was replaced on the host, and the agent can write it since\n"
        "  hint: look at it; then agent-sandbox up makes the agent's container anew, and protects it again\n"
    )


def test_a_dry_run_asks_nothing(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    assert exit_code(lambda: execute(["echo", "a b"], dry_run=True)) == 0
    assert capsys.readouterr().out.endswith("exec -T agent /usr/local/lib/agent-sandbox/enter echo 'a b'\n")
    assert docker.calls == []


def test_an_edited_stack_is_not_taken_silently(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(lambda: execute(["ls"])) == 1
    expected = f"error: {file}: this file has been edited since agent-sandbox wrote it: what it says now could open"
    assert capsys.readouterr().err.splitlines()[0] == f"{expected} the box"
    assert docker.calls == []
