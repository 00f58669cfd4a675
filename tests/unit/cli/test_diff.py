from pathlib import Path

import pytest

from agent_sandbox.cli.diff import diff
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.steps.clones import enter_clone
from agent_sandbox.runtime.project.installed import open_project
from clone_worlds import HereDriver, commit, git, with_clone_driver


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
