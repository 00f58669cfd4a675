import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.errors import exit_code
from agent_sandbox.cli.proxy.logs import logs
from fake_docker import FakeDocker
from fake_stack import with_containers

ALLOWED = {"time": "x", "decision": "allow", "method": "GET", "host": "a.test", "port": 80, "path": "/", "reason": "r"}
DENIED = ALLOWED | {"decision": "deny", "host": "b.test"}
PROBE = DENIED | {"event": "start"}
LOG = "\n".join(("not json", *map(json.dumps, (ALLOWED, DENIED, PROBE)), ""))


@pytest.fixture
def up(project: Path, docker: FakeDocker) -> FakeDocker:
    """Have a proxy that has stopped: its log can still be read."""
    assert project.exists()
    return with_containers(docker, proxy="exited")


def test_decisions_are_lines_for_people(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says("logs", out=LOG)
    assert exit_code(logs) == 0
    assert capsys.readouterr().out == "x  allow  GET http://a.test/  r\nx  deny   GET http://b.test/  r\n"


def test_only_denials_when_asked(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says("logs", out=LOG)
    assert exit_code(lambda: logs(denied=True, tail=9)) == 0
    assert capsys.readouterr().out == "x  deny   GET http://b.test/  r\n"


def test_the_last_lines_are_counted_without_what_the_stack_asks_of_itself(
    up: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    up.says("logs", out=LOG + json.dumps(PROBE) + "\n")
    assert exit_code(lambda: logs(tail=1)) == 0
    assert capsys.readouterr().out == "x  deny   GET http://b.test/  r\n"


def test_a_program_gets_the_proxys_own_lines(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says("logs", out=LOG)
    assert exit_code(lambda: logs(json=True)) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [ALLOWED, DENIED]


def test_ctrl_c_ends_following_without_a_word(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says("logs --follow", script=f"kill -INT {os.getpid()}; exec sleep 5")
    assert exit_code(lambda: logs(follow=True)) == 130
    assert capsys.readouterr() == ("", "")
