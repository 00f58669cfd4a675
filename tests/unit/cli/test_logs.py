from pathlib import Path

import pytest

from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.logs import logs
from agent_sandbox.runtime import process
from fake_docker import FakeDocker
from fake_stack import with_containers


def test_logs_are_composes_own(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project.exists()
    became: list[tuple[str, ...]] = []
    monkeypatch.setattr(process, "become", lambda argv, cwd: became.append((*argv, str(cwd))))
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(lambda: logs(["proxy"], follow=True, tail=3)) == 0
    assert became[0][-6:] == ("logs", "--follow", "--tail", "3", "proxy", str(project))


def test_an_unknown_service_names_those_there_are(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(lambda: logs(["prox"])) == 1
    expected = "error: prox: the stack has no such service\n  hint: one of: agent, proxy\n"
    assert capsys.readouterr().err == expected


def test_a_stack_that_is_down_has_none(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(logs) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"
