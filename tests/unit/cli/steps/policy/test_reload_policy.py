from pathlib import Path

import pytest

from agent_sandbox.cli.steps.policy.reload_policy import reload_stack, report, require_loaded
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker
from fake_stack import with_containers


def test_an_answer_that_is_not_ok_is_an_error_that_says_what_is_in_force() -> None:
    with pytest.raises(UserError) as raised:
        require_loaded({"ok": False, "problems": ["policy.yaml:1:1: unknown key"]})
    kept = "nothing was changed: the previous policy stays in force until the proxy restarts"
    assert str(raised.value) == f"policy.yaml:1:1: unknown key\n{kept}"


def test_a_running_stack_reloads_and_the_result_is_reported(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("agent_sandbox.proxy reload", out='{"ok": true, "digest": "0123456789abcdef", "closed": 1}')
    with_containers(docker, proxy="healthy")
    report(reload_stack(project))
    assert capsys.readouterr() == ("", "policy loaded, digest 0123456789ab, 1 connections closed\n")


def test_a_stack_that_does_not_run_cannot_reload(project: Path, docker: FakeDocker) -> None:
    with_containers(docker)
    with pytest.raises(UserError, match="the stack is not running; agent-sandbox up"):
        reload_stack(project)
