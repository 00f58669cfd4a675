from pathlib import Path

import pytest

from agent_sandbox.cli.steps.secrets import take_effect as subject
from agent_sandbox.runtime.project.installed import read_project
from fake_docker import FakeDocker
from fake_stack import with_containers


@pytest.mark.parametrize(
    ("runs", "is_stored", "how", "said"),
    [
        (True, True, "", "policy loaded, digest 111111111111\n"),
        (True, True, "names it", "a was replaced; the policy names it already\npolicy loaded, digest 111111111111\n"),
        (False, True, "", "a is stored, and agent-sandbox up loads the policy\n"),
        (False, False, "", "a will be fetched from its source by agent-sandbox up\n"),
    ],
)
def test_a_secret_takes_effect_now_or_with_the_first_up(
    project: Path,
    docker: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    runs: bool,
    is_stored: bool,
    how: str,
    said: str,
) -> None:
    with_containers(docker, **({"proxy": "healthy"} if runs else {}))
    monkeypatch.setattr(subject, "reload_stack", lambda _: {"digest": "1" * 64, "change": {"counts": {"added": 0}}})
    subject.take_effect(read_project(project), "a", None, is_stored=is_stored, how=how)
    out, err = capsys.readouterr()
    assert out + err == said
