import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.features.secrets.commands.list import list as list_secrets
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.images import proxy_name
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
USED: dict[str, object] = {"uses": 3, "last_use": 1_700_000_000.5}
HELD: list[dict[str, object]] = [
    {"name": "tracker.token", "hosts": ["api.example.com"], **USED},
    {"name": "key", "hosts": ["b.test", "c.test"]},
]
ROW: dict[str, object] = {"source": "", "problem": "", "expires": None, "uses": 0, "last_use": None}
NOON = "2023-11-14T22:13:20+00:00"
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
    """Fake a running proxy, and write a policy that needs two secrets."""
    (project / ".devcontainer" / "policy.yaml").write_text(POLICY)
    return with_containers(docker, proxy="unhealthy")


def test_lists_names_and_hosts_and_missing_secrets(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says(f"{PROGRAM} secret list", out=json.dumps(HELD))
    assert exit_code(list_secrets) == 0
    assert capsys.readouterr().out.splitlines() == [
        "key            b.test, c.test   unused  never used",
        f"tracker.token  api.example.com  bearer  used 3 times, last {local_time(NOON)}",
        "",
        MISSING,
    ]
    assert (
        running.calls[-1] == f"{compose_line(Path.cwd())} exec -T proxy {PROGRAM} secret list --folder /state/secrets"
    )


def test_lists_only_missing_secrets_if_no_secret_is_set(
    running: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    running.says(f"{PROGRAM} secret list", out="[]")
    assert exit_code(list_secrets) == 0
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), out.splitlines()[0], err) == (2, MISSING, "no secret is set\n")


def test_json_output_lists_set_and_missing_secrets(running: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    running.says(f"{PROGRAM} secret list", out=json.dumps(HELD))
    assert exit_code(lambda: list_secrets(json=True)) == 0
    assert json.loads(capsys.readouterr().out) == {
        "secrets": [
            {**HELD[1], **ROW, "kinds": []},
            {**HELD[0], **ROW, "kinds": ["bearer"], "uses": 3, "last_use": NOON},
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


def test_lists_the_sources_before_the_first_start(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes_of(project, os.environ).add(Recipe(name="tracker.token", hosts=("api.example.com",), source="pass t"))
    running.rules.clear()
    running.says("ps --all").says("image inspect", err="Error: No such image: x", code=1)
    assert exit_code(list_secrets) == 0
    shown = "tracker.token  api.example.com  bearer  from pass t; no value now: not fetched yet; never used"
    assert capsys.readouterr().out.splitlines() == [shown, "", MISSING]


def test_reads_the_secrets_of_a_stopped_stack_in_a_separate_container(
    running: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    image = {"tags": [proxy_name()], "labels": {}}
    running.rules.clear()
    running.says("image inspect", out=json.dumps(image)).says("volume ls", out="app-1_secrets\n")
    running.says("ps --all").says("network ls").says("run --rm", out=json.dumps(HELD))
    assert exit_code(list_secrets) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    own = "run --rm --no-deps -T proxy secret list --folder /state/secrets"
    assert running.calls[-1] == f"{compose_line(Path.cwd())} {own}"


def test_shows_the_source_of_a_secret_and_its_failure(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes_of(project, os.environ).add(Recipe(name="tracker.token", hosts=("api.example.com",), source="pass t"))
    held = [{**HELD[0], "problem": "its source failed", "expires": 1_700_000_000, "uses": 1}]
    running.says(f"{PROGRAM} secret list", out=json.dumps(held))
    assert exit_code(list_secrets) == 0
    at = local_time(NOON)
    about = f"from pass t; no value now: its source failed; expires {at}; used once, last {at}"
    assert capsys.readouterr().out.splitlines()[0] == f"tracker.token  api.example.com  bearer  {about}"
    assert exit_code(lambda: list_secrets(json=True)) == 0
    (row,) = json.loads(capsys.readouterr().out)["secrets"]
    assert row == {**held[0], "kinds": ["bearer"], "source": "pass t", "expires": NOON, "last_use": NOON}


def test_names_the_login_command_for_a_missing_login(
    running: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running.says(f"{PROGRAM} secret list", out="[]")
    services = "[{name: claude, login: claude.login}, {name: gemini, login: my.login}]"
    (project / ".devcontainer" / "policy.yaml").write_text(f"version: 1\nservices: {services}\n")
    assert exit_code(list_secrets) == 0
    commands = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert "agent-sandbox login claude" in commands
    assert any(one.startswith("agent-sandbox secret set my.login --host ") for one in commands)
