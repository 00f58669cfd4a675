from pathlib import Path

import pytest

from agent_sandbox.features.clones.host_repository import start_of
from agent_sandbox.features.clones.volume import FILL
from agent_sandbox.problems import UserError
from clone_worlds import World, commit, git, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def test_a_clone_has_the_projects_commits_branches_and_files_but_none_of_its_settings(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    assert git(world.work, "for-each-ref") == git(world.host, "for-each-ref")
    assert (git(world.work, "status", "--porcelain", "--branch"), (world.work / "a.txt").read_text()) == (
        "## main",
        "one\n",
    )
    assert git(world.work, "config", "--local", "--list").splitlines() == [
        "core.repositoryformatversion=0",
        "core.filemode=true",
        "core.bare=false",
        "core.logallrefupdates=true",
    ]
    git(world.work, "fsck", "--strict")


def test_the_clone_of_a_shallow_repository_is_shallow_and_its_commits_can_be_fetched(
    world: World, tmp_path: Path
) -> None:
    commit(world.host)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{world.host}", "shallow")
    (tmp_path / "second").mkdir()
    shallow = make_world(tmp_path / "second", tmp_path / "shallow")
    assert git(shallow.work, "rev-list", "--count", "HEAD") == "1"
    git(shallow.work, "fsck", "--strict")
    new = commit(shallow.work, text="new\n")
    assert [one.commits for one in shallow.fetch()] == [1]
    assert shallow.fetched() == {"refs/remotes/box/fix-1/main": new}


def test_commits_in_the_clone_of_a_partial_repository_can_be_fetched(world: World, tmp_path: Path) -> None:
    commit(world.host, text="two\n")
    git(world.host, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", f"file://{world.host}", "partial")
    (tmp_path / "second").mkdir()
    partial = make_world(tmp_path / "second", tmp_path / "partial")
    assert partial.repository.partial
    assert (partial.work / "a.txt").read_text() == "two\n"
    new = commit(partial.work, name="b.txt", text="new\n")
    partial.fetch()
    assert partial.fetched() == {"refs/remotes/box/fix-1/main": new}


def test_replaces_files_that_a_failed_attempt_left_in_the_volume(world: World) -> None:
    (world.work / ".git" / "HEAD").unlink()
    (world.work / "left").write_text("")
    world.volume.fill(world.repository, start_of(world.repository, world.host), "main", {})
    assert sorted(path.name for path in world.work.iterdir()) == [".git", "a.txt"]


def test_containers_for_a_clone_have_no_network_and_only_fill_can_write(world: World) -> None:
    world.status()
    fill, listed = world.driver.steps
    for step in (fill, listed):
        words = " ".join(step.argv)
        assert "--network none --read-only --cap-drop ALL --security-opt no-new-privileges" in words
        assert "--user 1000:1000 --mount type=volume,source=app-fix-1-1_workspace,target=/workspace" in words
    assert ",readonly" not in " ".join(fill.argv)
    assert ",target=/workspace,readonly" in " ".join(listed.argv)
    assert FILL in fill.argv


def test_a_clone_without_a_repository_is_a_problem(world: World) -> None:
    (world.work / ".git" / "HEAD").unlink()
    with pytest.raises(UserError) as raised:
        world.status()
    assert str(raised.value) == "app-fix-1-1: cannot be read: not a git repository: '.git'"
