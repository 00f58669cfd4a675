import os
from pathlib import Path

import pytest

from agent_sandbox.cli.steps.start_stack import start
from agent_sandbox.cli.steps.trust_gate import open_trusted
from fake_docker import FakeDocker


def test_an_interrupted_start_is_no_start(up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up_to_date.says("ps --all").says("up --detach", script=f"kill -INT {os.getpid()}; exec sleep 5")
    project = open_trusted(None, cwd=Path.cwd())
    assert start(project, quiet=True) == 130
    assert capsys.readouterr().err == (
        "interrupted: run `agent-sandbox up` again, or `agent-sandbox down` to stop what was started\n"
    )


def test_a_stack_that_is_up_is_no_more_than_that(up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up_to_date.says("ps --all").says("up --detach")
    assert start(open_trusted(None, cwd=Path.cwd()), quiet=True) == 0
    assert capsys.readouterr() == ("", "")
