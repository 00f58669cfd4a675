from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy.commands.restart import restart
from fake_docker import FakeDocker
from fake_stack import with_containers


def test_restarts_the_proxy_and_waits_for_it(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    docker.says("compose --project-name")
    with_containers(docker, proxy="exited")
    assert exit_code(lambda: restart(quiet=True)) == 0
    assert [call.split("docker-compose.yml ")[1] for call in docker.calls[1:]] == [
        "restart proxy",
        "up --detach --no-build --no-deps --no-recreate --wait --wait-timeout 120 proxy",
    ]


def test_does_not_restart_the_proxy_with_an_invalid_policy(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomainz: []\n")
    assert exit_code(restart) == 1
    assert "unknown key 'domainz'" in capsys.readouterr().err
    assert docker.calls == []


def test_reports_a_stack_that_is_not_running(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(restart) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"
