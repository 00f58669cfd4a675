import os
from pathlib import Path

import pytest

from agent_sandbox.features.clones.running_clones import running_clones, running_clones_or_none
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of, new_clone, save_clone
from clone_worlds import with_clones
from fake_docker import FakeDocker
from fake_stack import with_running


@pytest.fixture(autouse=True)
def clones(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the clones fix-1 and fix-2, and one that was never filled."""
    with_clones(project, tmp_path_factory.mktemp("clones"), monkeypatch, "fix-1", "fix-2")
    save_clone(new_clone(project, "fix-3", os.environ, title="app"))


def test_finds_clones_whose_proxy_runs(project: Path, docker: FakeDocker) -> None:
    with_running(docker, "app-fix-2-")
    ((clone, own),) = running_clones(project)
    assert (clone.name, own.root) == ("fix-2", clone.root)
    assert running_clones_or_none(project) == (clone,)
    assert running_clones(own.root) == ()


def test_running_clones_or_none_ignores_a_damaged_record(project: Path) -> None:
    (first, *_) = clones_of(project, os.environ)
    first.root.with_suffix(".json").write_text("")
    with pytest.raises(UserError):
        running_clones(project)
    assert running_clones_or_none(project) == ()
