import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy.commands.logs import logs
from fake_docker import FakeDocker
from fake_stack import with_containers

ALLOWED = {"time": "x", "decision": "allow", "method": "GET", "host": "a.test", "port": 80, "path": "/", "reason": "r"}
DENIED = ALLOWED | {"decision": "deny", "host": "b.test"}
LOG = "\n".join(("not json", *map(json.dumps, (ALLOWED, DENIED)), ""))
READ = "exec -T proxy /opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy log --file /state/log/traffic.jsonl"


@pytest.fixture
def up(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake a running proxy."""
    assert project.exists()
    return with_containers(docker, proxy="unhealthy")


def test_prints_each_decision_as_one_line(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(READ, out=LOG)
    assert exit_code(logs) == 0
    assert capsys.readouterr().out == "x  allow  GET http://a.test/  r\nx  deny   GET http://b.test/  r\n"


def test_passes_the_filter_options_to_the_proxy(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(f"{READ} --follow --tail 9 --denied", out=json.dumps(DENIED) + "\n")
    assert exit_code(lambda: logs(follow=True, denied=True, tail=9)) == 0
    assert capsys.readouterr().out == "x  deny   GET http://b.test/  r\n"


def test_json_output_has_the_audit_records_of_the_proxy(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(READ, out=LOG)
    assert exit_code(lambda: logs(json=True)) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [ALLOWED, DENIED]


def test_ctrl_c_ends_following_without_output(up: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up.says(f"{READ} --follow", script=f"kill -INT {os.getpid()}; exec sleep 5")
    assert exit_code(lambda: logs(follow=True)) == 130
    assert capsys.readouterr() == ("", "")


def test_follow_fails_if_the_proxy_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, proxy="exited")
    assert exit_code(lambda: logs(follow=True)) == 1
    assert capsys.readouterr().err == (
        "error: app-1: the proxy is exited with code 1\n"
        "  hint: agent-sandbox up starts it; agent-sandbox logs proxy shows why it is not ready\n"
    )
