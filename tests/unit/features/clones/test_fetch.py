from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.clones import fetch
from agent_sandbox.features.clones.fetch import one_at_a_time
from agent_sandbox.features.clones.listing import NO_BRANCH
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import Clone
from clone_worlds import World, commit, git, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def test_fetches_commits_under_the_clones_name_and_changes_no_other_reference(world: World) -> None:
    before = git(world.host, "for-each-ref"), (world.host / ".git" / "config").read_text()
    first = commit(world.work)
    git(world.work, "switch", "--quiet", "--create", "topic/x")
    second = commit(world.work, text="two\n")
    main, topic = world.fetch()
    assert world.fetched() == {"refs/remotes/box/fix-1/main": first, "refs/remotes/box/fix-1/topic/x": second}
    assert (main.commits, main.new, topic.commits, topic.new) == (1, 1, 2, 2)
    git(world.host, "fsck", "--strict")
    for reference in world.fetched():
        git(world.host, "update-ref", "-d", reference)
    assert (git(world.host, "for-each-ref"), (world.host / ".git" / "config").read_text()) == before


def test_each_stash_is_fetched_once_and_can_be_applied(world: World) -> None:
    """One stash has an untracked file."""
    (world.work / "a.txt").write_text("stashed\n")
    git(world.work, "stash", "push", "--quiet")
    first = git(world.work, "rev-parse", "stash@{0}")
    (world.work / "new.txt").write_text("new\n")
    git(world.work, "stash", "push", "--quiet", "--include-untracked")
    second = git(world.work, "rev-parse", "stash@{0}")
    assert [(one.commit, one.stash) for one in world.fetch()] == [(second, True), (first, True)]
    assert world.fetched() == {f"refs/remotes/box/fix-1/stash-{one[:10]}": one for one in (first, second)}
    assert all(one.is_fetched for one in world.status().branches)
    git(world.host, "fsck", "--strict")
    for one in (first, second):
        git(world.host, "stash", "apply", "--quiet", f"box/fix-1/stash-{one[:10]}")
    assert ((world.host / "a.txt").read_text(), (world.host / "new.txt").read_text()) == ("stashed\n", "new\n")


def test_fetches_a_stash_without_a_reflog(world: World) -> None:
    (world.work / "a.txt").write_text("stashed\n")
    git(world.work, "stash", "push", "--quiet")
    (world.work / ".git" / "logs" / "refs" / "stash").unlink()
    assert [one.stash for one in world.fetch()] == [True]


def test_commits_of_a_detached_head_are_fetched(world: World) -> None:
    git(world.work, "switch", "--quiet", "--detach")
    assert world.status().branches == ()
    new = commit(world.work)
    (branch,) = world.fetch()
    assert (branch.new, world.fetched()) == (1, {"refs/remotes/box/fix-1/detached": new})
    git(world.work, "branch", "topic")
    assert [one.name for one in world.status().branches] == ["topic"]


def test_reports_commits_that_are_on_no_branch(world: World) -> None:
    git(world.work, "tag", "old")  # the host has its commit
    git(world.work, "switch", "--quiet", "--detach")
    new = commit(world.work)
    git(world.work, "tag", "v1")
    assert world.status().listing.refused == {new[:10]: NO_BRANCH}
    git(world.work, "branch", "topic", new)
    assert world.status().listing.refused == {}
    git(world.work, "branch", "--quiet", "--delete", "--force", "topic")
    git(world.work, "tag", "--delete", "v1")
    assert world.status().listing.refused == {}
    assert [one.name for one in world.status().branches] == ["detached"]


def test_a_commit_that_only_another_worktree_has_is_reported(world: World, tmp_path: Path) -> None:
    git(world.work, "worktree", "add", "--quiet", "--detach", str(tmp_path / "other"))
    assert world.status().listing.refused == {}
    new = commit(tmp_path / "other")
    assert world.status().listing.refused == {new[:10]: NO_BRANCH}


def test_branches_without_a_new_commit_are_not_fetched(world: World) -> None:
    assert world.status().branches == ()
    assert world.fetch() == ()
    assert world.fetched() == {}


def test_a_second_fetch_copies_only_new_commits(world: World) -> None:
    commit(world.work)
    world.fetch()
    packs = len([*(world.host / ".git" / "objects" / "pack").glob("*.pack")])
    assert all(one.is_fetched for one in world.status().branches)
    second = commit(world.work, text="again\n")
    (branch,) = world.fetch()
    assert world.fetched() == {"refs/remotes/box/fix-1/main": second}
    assert (branch.commits, branch.new, branch.rewritten) == (2, 1, False)
    assert len([*(world.host / ".git" / "objects" / "pack").glob("*.pack")]) == packs + 1


def test_a_rewritten_branch_replaces_the_fetched_branch_whose_commit_stays_in_the_reflog(world: World) -> None:
    former = commit(world.work)
    world.fetch()
    git(world.work, "commit", "--quiet", "--amend", "--message", "better")
    (branch,) = world.fetch()
    assert (branch.new, branch.rewritten) == (1, True)
    assert git(world.host, "rev-parse", "box/fix-1/main@{1}") == former


def test_refuses_a_branch_whose_name_conflicts_with_a_fetched_branch(world: World) -> None:
    git(world.work, "switch", "--quiet", "--create", "topic")
    commit(world.work)
    world.fetch()
    git(world.work, "switch", "--quiet", "main")
    git(world.work, "branch", "--quiet", "-D", "topic")
    git(world.work, "switch", "--quiet", "--create", "topic/x")
    commit(world.work)
    taken = "refs/remotes/box/fix-1/topic"
    assert world.status().listing.refused == {"topic/x": f"another reference is in the way: git update-ref -d {taken}"}
    assert [*world.fetched()] == [taken]


def test_refuses_branches_if_a_reference_has_the_name_of_the_clones_directory(world: World) -> None:
    git(world.host, "update-ref", "refs/remotes/box/fix-1", "HEAD")
    git(world.host, "pack-refs", "--all")
    commit(world.work)
    way = "another reference is in the way: git update-ref -d refs/remotes/box/fix-1"
    assert world.status().listing.refused == {"main": way}


def test_does_not_overwrite_a_reference_that_changes_during_the_fetch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(world.work)
    head = git(world.host, "rev-parse", "HEAD")
    write = "refs/remotes/box/fix-1/main", head

    def changed(*_: object) -> None:
        git(world.host, "update-ref", *write)

    monkeypatch.setattr(fetch, "_require_no_links", changed)
    with pytest.raises(UserError, match="its references changed while this command ran; run it again"):
        world.fetch()
    assert world.fetched() == dict([write])
    assert not [*(world.host / ".git").rglob("*.lock")]


def test_git_itself_writes_the_references_of_a_repository_with_reftables(world: World) -> None:
    world.repository = replace(world.repository, reftable=True)
    new = commit(world.work)
    world.fetch()
    assert world.fetched() == {"refs/remotes/box/fix-1/main": new}
    assert git(world.host, "reflog", "show", "--format=%gs", "box/fix-1/main") == "agent-sandbox fetch fix-1"


def test_refuses_commits_above_the_size_limit_and_fetches_nothing(world: World) -> None:
    commit(world.work, text="".join(map(str, range(5000))))
    with pytest.raises(UserError, match="its new commits are larger than 1 kB"):
        world.fetch(most=1000)
    assert world.fetched() == {}


def test_a_commit_that_the_project_already_has_is_not_sent(world: World) -> None:
    other = commit(world.host)
    git(world.work, "fetch", "--quiet", str(world.host), "main:topic")
    (branch,) = world.fetch()
    assert (branch.name, world.fetched()) == ("topic", {"refs/remotes/box/fix-1/topic": other})
    assert len(world.driver.steps) == 2  # fill and list


def test_only_one_command_at_a_time_uses_a_clone(tmp_path: Path) -> None:
    clone = Clone(project=tmp_path, name="fix-1", root=tmp_path / "clones" / "fix-1", title="x")
    with one_at_a_time(clone), pytest.raises(UserError) as raised, one_at_a_time(clone):
        pass
    assert str(raised.value) == (
        "fix-1: another command is using this clone; wait until that command ends, then run this one again"
    )
    with one_at_a_time(clone):
        pass
