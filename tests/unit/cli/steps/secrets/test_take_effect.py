from pathlib import Path

import pytest

from agent_sandbox.cli.steps.secrets.take_effect import take_effect
from agent_sandbox.runtime.project.installed import read_project
from fake_docker import FakeDocker
from fake_stack import with_containers


@pytest.mark.parametrize(
    ("runs", "is_stored", "said"),
    [
        (True, True, "loaded\n"),
        (False, True, "a is stored, and agent-sandbox up loads the policy\n"),
        (False, False, "a will be fetched from its source by agent-sandbox up\n"),
    ],
)
def test_a_secret_takes_effect_now_or_with_the_first_up(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], *, runs: bool, is_stored: bool, said: str
) -> None:
    with_containers(docker, **({"proxy": "healthy"} if runs else {}))
    take_effect(read_project(project), "a", lambda: print("loaded"), is_stored=is_stored)  # noqa: T201 - a stand-in
    out, err = capsys.readouterr()
    assert out + err == said
