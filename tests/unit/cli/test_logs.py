import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.logs import logs
from fake_docker import FakeDocker
from fake_stack import with_containers


def test_logs_are_composes_own_but_can_not_steer_a_terminal(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("logs --no-color --follow --tail 3 proxy", out="\x1b[2Kproxy-1  | a\nproxy-1  | \x1b]0;title\x07\n")
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(lambda: logs(["proxy"], follow=True, tail=3)) == 0
    assert capsys.readouterr().out == "proxy-1  | a\nproxy-1  | \\x1b]0;title\\x07\n"


def test_ctrl_c_ends_following_without_a_word(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("logs --no-color --follow", script=f"kill -INT {os.getpid()}; exec sleep 5")
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: logs(follow=True)) == 130
    assert capsys.readouterr() == ("", "")


def test_an_unknown_service_names_those_there_are(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="healthy", agent="healthy")
    assert exit_code(lambda: logs(["prox"])) == 1
    expected = "error: prox: the stack has no such container\n  hint: one of: agent, proxy\n"
    assert capsys.readouterr().err == expected


def test_a_stack_that_is_down_has_none(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(logs) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"
