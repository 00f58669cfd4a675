import os
from pathlib import Path

import pytest

from agent_sandbox.features.clones import clones, throw_away_clone
from agent_sandbox.features.session.sandbox_for_run import sandbox_for_run
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import open_project
from clone_worlds import HereDriver, commit, git, with_clone_driver
from fake_docker import FakeDocker


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    made = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    monkeypatch.setattr(throw_away_clone, "backend", lambda: made.planner)
    monkeypatch.setattr(throw_away_clone, "execute", lambda *_args, **_options: None)
    return made


def test_the_projects_own_sandbox_is_kept(project: Path, docker: FakeDocker) -> None:
    own = open_project(None, cwd=project)
    with sandbox_for_run(own, None, removes=False, extra_ca=None, quiet=True) as sandbox:
        sandbox.keep_cache()
        assert (sandbox.project, sandbox.before, sandbox.fetch, sandbox.fetch_failed) == (own, None, None, False)
    assert docker.calls == []


def test_rm_removes_the_projects_own_sandbox(up_to_date: FakeDocker) -> None:
    up_to_date.says("ps --all").says("network ls").says("volume ls").says("volume prune").says("down --remove-orphans")
    own = open_project(None, cwd=Path.cwd())
    with sandbox_for_run(own, None, removes=True, extra_ca=None, quiet=True) as sandbox:
        assert sandbox.before is not None
        assert (sandbox.project, sandbox.fetch) == (own, None)
    assert " down --remove-orphans --volumes" in up_to_date.calls[-2]


def test_keeps_a_clone_and_with_rm_removes_only_a_new_clone(project: Path, driver: HereDriver) -> None:
    own = open_project(None, cwd=project)
    with sandbox_for_run(own, "fix-1", removes=False, extra_ca=None, quiet=True) as sandbox:
        assert (sandbox.project.root.name, sandbox.before, sandbox.fetch) == ("fix-1", None, None)
    again = sandbox_for_run(own, "fix-1", removes=True, extra_ca=None, quiet=True)
    with pytest.raises(UserError, match="the clone fix-1 exists already, and --rm would remove it"), again:
        pytest.fail("it was entered")
    with sandbox_for_run(own, "", removes=True, extra_ca=None, quiet=True) as sandbox:
        assert sandbox.project.root.name == "clone-1"
        assert sandbox.before is not None
        assert sandbox.before.files == {}
        new = commit(driver.folder)
        assert sandbox.fetch is not None
        assert sandbox.fetch() is not None
    assert git(project, "rev-parse", "box/clone-1/main") == new
    assert not sandbox.fetch_failed
    assert [one.name for one in clones_of(project, os.environ)] == ["fix-1"]


def test_a_clone_that_cannot_be_made_leaves_nothing(
    project: Path, driver: HereDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise UserError([])

    monkeypatch.setattr(clones, "execute", fail)
    with (
        pytest.raises(UserError),
        sandbox_for_run(open_project(None, cwd=project), "", removes=True, extra_ca=None, quiet=True),
    ):
        pytest.fail("it was entered")
    assert (clones_of(project, os.environ), driver.steps) == ((), [])
