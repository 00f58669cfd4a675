import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.proxy.logs import logs
from fake_docker import FakeDocker
from fake_stack import with_containers

ALLOWED = {"time": "x", "decision": "allow", "method": "GET", "host": "a.test", "port": 80, "path": "/", "reason": "r"}
DENIED = ALLOWED | {"decision": "deny", "host": "b.test"}
LOG = "\n".join(("not json", *map(json.dumps, (ALLOWED, DENIED)), ""))
READ = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy log --file /state/log/traffic.jsonl"


@pytest.fixture
def up(project: Path, docker: FakeDocker) -> FakeDocker:
    """Have a proxy that runs."""
    assert project.exists()
    return with_containers(docker, proxy="unhealthy")


def test_decisions_are_lines_for_people(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(READ, out=LOG)
    assert exit_code(logs) == 0
    assert capsys.readouterr().out == "x  allow  GET http://a.test/  r\nx  deny   GET http://b.test/  r\n"


def test_the_proxy_picks_the_lines(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(f"{READ} --follow --tail 9 --denied", out=json.dumps(DENIED) + "\n")
    assert exit_code(lambda: logs(follow=True, denied=True, tail=9)) == 0
    assert capsys.readouterr().out == "x  deny   GET http://b.test/  r\n"


def test_a_program_gets_the_proxys_own_lines(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(READ, out=LOG)
    assert exit_code(lambda: logs(json=True)) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [ALLOWED, DENIED]


def test_ctrl_c_ends_following_without_a_word(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(f"{READ} --follow", script=f"kill -INT {os.getpid()}; exec sleep 5")
    assert exit_code(lambda: logs(follow=True)) == 130
    assert capsys.readouterr() == ("", "")


def test_a_proxy_that_does_not_run_cannot_be_followed(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="exited")
    assert exit_code(lambda: logs(follow=True)) == 1
    assert capsys.readouterr().err == (
        "error: app-1: the proxy is exited with code 1\n"
        "  hint: agent-sandbox up starts it; agent-sandbox logs proxy shows why it is not ready\n"
    )
