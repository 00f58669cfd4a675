import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.container import Container
from agent_sandbox.features.clones import clones
from agent_sandbox.features.clones.clone_fetch import fetch_clone, fetched_lines
from agent_sandbox.features.clones.clones import enter_clone
from agent_sandbox.features.clones.host_repository import open_repository
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import Clone, clones_of
from agent_sandbox.project.installed import open_project
from clone_worlds import HereDriver, commit, git, with_clone_driver


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    """Have a clone named fix-1."""
    made = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    enter_clone(open_project(None, cwd=project), "fix-1", extra_ca=None, quiet=True)
    return made


@pytest.fixture
def clone(project: Path, driver: HereDriver) -> Clone:
    assert driver.steps
    return clones_of(project, os.environ)[0]


def lines(clone: Clone) -> list[str]:
    return [*fetched_lines(fetch_clone(clone))]


def test_a_stash_is_printed_with_the_command_that_applies_it(driver: HereDriver, clone: Clone) -> None:
    (driver.folder / "a.txt").write_text("stashed\n")
    git(driver.folder, "stash", "push", "--quiet")
    name = f"box/fix-1/stash-{git(driver.folder, 'rev-parse', 'refs/stash')[:10]}"
    assert lines(clone) == [f"{name}  a stash: git stash apply {name}"]


def test_fetches_only_new_commits_and_lists_what_was_not_fetched(
    project: Path, driver: HereDriver, clone: Clone
) -> None:
    assert lines(clone) == ["fix-1: nothing new to fetch"]
    new = commit(driver.folder)
    (driver.folder / "dirty").write_text("")
    git(driver.folder, "update-ref", "refs/heads/z\u200b", "HEAD")
    left = ["  refused: z\u200b: its name contains invisible characters", "  not committed: 1 file: dirty"]
    assert lines(clone) == ["box/fix-1/main  1 new commit", *left]
    assert git(project, "rev-parse", "box/fix-1/main") == new
    assert lines(clone) == ["fix-1: nothing new to fetch", *left]


def test_refuses_to_fetch_into_a_reftable_repository_while_the_agent_runs(
    project: Path, driver: HereDriver, clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "open_repository", lambda path: replace(open_repository(path), reftable=True))
    monkeypatch.setattr("agent_sandbox.features.stack.execute.driver", lambda: driver)
    commit(driver.folder)
    monkeypatch.setattr(driver, "containers", (Container(id="1", service="agent", image="x", state="running"),))
    with pytest.raises(UserError) as caught:
        fetch_clone(clone)
    what = "its references are in the reftable format, and an agent that runs here could lead git elsewhere"
    assert str(caught.value) == f"{project}: {what}; agent-sandbox down, then fetch again"
    assert git(project, "for-each-ref", "refs/remotes") == ""
    monkeypatch.setattr(driver, "containers", ())
    assert lines(clone) == ["box/fix-1/main  1 new commit"]
