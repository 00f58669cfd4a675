from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.cli.steps.secrets.secret_store import ask_store, secrets_of
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.installed import open_project
from fake_docker import FakeDocker


def test_does_not_start_an_untrusted_stack_for_its_secrets(project: Path, docker: FakeDocker) -> None:
    docker.says("ps --all")
    untrusted = replace(open_project(project, cwd=project), files=())
    with pytest.raises(UserError, match="the stack is not running"):
        ask_store(untrusted, "remove", "a")
    assert secrets_of(untrusted) == ()
    assert [call for call in docker.calls if " run " in call] == []
