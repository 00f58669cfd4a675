import json
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.run import run
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.host import process
from agent_sandbox.runtime.init import facts
from agent_sandbox.runtime.project.installed import read_project
from agent_sandbox.stack.services.agent import ENTER
from agent_sandbox.stack.workspace import Owner
from fake_docker import FakeDocker
from fake_stack import compose_line


@pytest.fixture
def command(project: Path) -> tuple[str, ...]:
    """Return the command of the project's agent."""
    return load_manifest(data_root() / "templates", read_project(project).agent).command


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what we have become."""
    lines: list[str] = []
    monkeypatch.setattr(process, "become", lambda argv, cwd: lines.append(" ".join((*argv, "in", str(cwd)))))
    return lines


def test_the_agents_command_takes_our_place_once_the_stack_is_up(
    up_to_date: FakeDocker, command: tuple[str, ...], became: list[str]
) -> None:
    up_to_date.says("ps --all").says("up --detach")
    assert exit_code(lambda: run(["-p", "say hi"])) == 0
    here = Path.cwd()
    assert up_to_date.calls[-1].startswith(f"{compose_line(here)} up --detach ")
    asked = f"exec -T agent {ENTER} {' '.join(command)} -p say hi"
    assert became == [f"docker {compose_line(here)} {asked} in {here}"]


def test_what_the_agent_can_only_read_is_said_before_it_starts(
    up_to_date: FakeDocker, became: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(facts, "belongs_to_root", lambda _root: True)
    monkeypatch.setattr(facts, "owner_of", lambda _root: Owner(uid=1000, gid=1000))
    engine = {"KernelVersion": Path("/proc/sys/kernel/osrelease").read_text().strip(), "SecurityOptions": []}
    up_to_date.says("ps --all").says("up --detach").says("info --format", out=json.dumps(engine))
    assert exit_code(lambda: run([])) == 0
    said = "the files belong to root, but dev inside is 1000:1000: the agent can only read them\n"
    assert capsys.readouterr().err.endswith(f"{said}  hint: chown -R 1000:1000 {Path.cwd()}\n")
    assert len(became) == 1


def test_a_stack_that_does_not_start_runs_no_agent(
    up_to_date: FakeDocker, became: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("ps --all").says("up --detach", err="no space left on device", code=1)
    assert exit_code(run) == 1
    assert (became, "error: " in capsys.readouterr().err) == ([], True)


def test_what_the_user_has_not_looked_at_runs_nothing(project: Path, docker: FakeDocker, became: list[str]) -> None:
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(run) == 1
    assert (docker.calls, became) == ([], [])


def test_a_dry_run_prints_both_and_does_neither(
    project: Path, docker: FakeDocker, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: run(dry_run=True)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"docker {compose_line(project)} exec -T agent {ENTER} {' '.join(command)}"
    assert " up --detach " in lines[-3]
    assert docker.calls == []
