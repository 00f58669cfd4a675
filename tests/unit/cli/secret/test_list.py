import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.secret.list import list as list_secrets
from agent_sandbox.runtime.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
HELD = [{"name": "tracker.token", "hosts": ["api.example.com"]}, {"name": "key", "hosts": ["b.test", "c.test"]}]
POLICY = """\
version: 1
domains:
  - host: api.example.com
    transform: {request: {headers: {Authorization: {secret: tracker.token, transform: {type: bearer}}}}}
  - host: d.test
    transform: {request: {headers: {Authorization: {secret: other, transform: {type: bearer}}}}}
"""
MISSING = "policy.yaml:5 needs other for d.test: agent-sandbox secret set other --host d.test"


@pytest.fixture
def running(project: Path, docker: FakeDocker) -> FakeDocker:
    """Have a policy that wants two secrets, and a proxy."""
    (project / ".devcontainer" / "policy.yaml").write_text(POLICY)
    return with_containers(docker, proxy="unhealthy")


def test_names_and_hosts_are_shown_and_what_is_missing(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says(f"{PROGRAM} secret list", out=json.dumps(HELD))
    assert exit_code(list_secrets) == 0
    shown = f"key            b.test, c.test   unused\ntracker.token  api.example.com  bearer\n\n{MISSING}\n"
    assert capsys.readouterr() == (shown, "")
    assert (
        running.calls[-1] == f"{compose_line(Path.cwd())} exec -T proxy {PROGRAM} secret list --folder /state/secrets"
    )


def test_without_any_what_is_missing_stands_alone(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says(f"{PROGRAM} secret list", out="[]")
    assert exit_code(list_secrets) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), out.splitlines()[0], err) == (2, MISSING, "no secret is set\n")


def test_a_program_gets_it_as_json(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says(f"{PROGRAM} secret list", out=json.dumps(HELD))
    assert exit_code(lambda: list_secrets(json=True)) == 0
    assert json.loads(capsys.readouterr().out) == {
        "secrets": [
            {**HELD[1], "kinds": [], "source": "", "problem": ""},
            {**HELD[0], "kinds": ["bearer"], "source": "", "problem": ""},
        ],
        "wanted": [
            {
                "secret": "other",
                "host": "d.test",
                "rule": "policy.yaml:5",
                "command": "agent-sandbox secret set other --host d.test",
            }
        ],
    }


def test_a_proxy_that_does_not_run_is_told(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("ps --all")
    assert exit_code(list_secrets) == 1
    assert capsys.readouterr().err == "error: app-1: the stack is not running\n  hint: agent-sandbox up\n"


def test_a_source_is_shown_and_that_it_failed(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes_of(project, os.environ).add(Recipe(name="tracker.token", hosts=("api.example.com",), source="pass t"))
    held = [{**HELD[0], "problem": "its source failed"}]
    running.says(f"{PROGRAM} secret list", out=json.dumps(held))
    assert exit_code(list_secrets) == 0
    shown = "tracker.token  api.example.com  bearer  from pass t; no value now: its source failed"
    assert capsys.readouterr().out.splitlines()[0] == shown
    assert exit_code(lambda: list_secrets(json=True)) == 0
    (row,) = json.loads(capsys.readouterr().out)["secrets"]
    assert row == {**held[0], "kinds": ["bearer"], "source": "pass t"}
