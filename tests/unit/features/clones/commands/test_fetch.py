import json
import os
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.clones.clones import enter_clone
from agent_sandbox.features.clones.commands.fetch import fetch
from agent_sandbox.features.clones.fetch import one_at_a_time
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import open_project
from clone_worlds import HereDriver, commit, git, hostile_filter, with_clone_driver


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    """Make a clone named fix-1."""
    made = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    enter_clone(open_project(None, cwd=project), "fix-1", extra_ca=None, quiet=True)
    return made


def test_prints_fetched_branches_refused_branches_and_uncommitted_files(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    new = commit(driver.folder)
    (driver.folder / "dirty\x1b[2J").write_text("")
    assert exit_code(lambda: fetch("fix-1")) == 0
    assert capsys.readouterr().out == ("box/fix-1/main  1 new commit\n  not committed: 1 file: dirty\\x1b[2J\n")
    assert git(project, "rev-parse", "box/fix-1/main") == new
    git(driver.folder, "commit", "--quiet", "--amend", "--message", "better")
    git(driver.folder, "update-ref", "refs/heads/z\u200b", "HEAD")
    assert exit_code(fetch) == 1
    assert capsys.readouterr().out == (
        "box/fix-1/main  1 new commit; rewritten: the reflog has the former ones\n"
        "  refused: z\\u200b: its name contains invisible characters\n"
        "  not committed: 1 file: dirty\\x1b[2J\n"
    )


@pytest.mark.parametrize(("as_json", "out"), [(False, ""), (True, '{\n  "clones": []\n}\n')], ids=["text", "json"])
def test_ctrl_c_ends_fetching_from_a_hostile_clone(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str], *, as_json: bool, out: str
) -> None:
    commit(driver.folder)
    with hostile_filter(driver.folder):
        assert exit_code(lambda: fetch(json=as_json)) == 130
    said = "interrupted: the clone fix-1 is unchanged; run the command again to fetch the rest\n"
    assert capsys.readouterr() == (out, said)
    assert git(project, "for-each-ref", "refs/remotes/box") == ""


def test_reports_that_there_is_nothing_new_to_fetch(driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert exit_code(fetch) == 0
        assert capsys.readouterr().out == "fix-1: nothing new to fetch\n"
    commit(driver.folder)
    fetch()
    capsys.readouterr()
    assert exit_code(fetch) == 0
    assert capsys.readouterr().out == "fix-1: nothing new to fetch\n"


def test_fetches_other_clones_if_one_clone_cannot_be_fetched(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    enter_clone(open_project(None, cwd=project), "a-first", extra_ca=None, quiet=True)
    commit(driver.folder)
    first, _ = clones_of(project, os.environ)
    problem = (
        "error: a-first: another command is using this clone\n"
        "  hint: wait until that command ends, then run this one again\n"
    )
    with one_at_a_time(first):
        assert exit_code(fetch) == 1
        assert capsys.readouterr() == ("box/fix-1/main  1 new commit\n", problem)
        assert exit_code(lambda: fetch(json=True)) == 1
    out, err = capsys.readouterr()
    assert ([one["name"] for one in json.loads(out)["clones"]], err) == (["fix-1"], problem)


def test_json_output_has_references_and_commits(driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    new = commit(driver.folder)
    assert exit_code(lambda: fetch(json=True)) == 0
    branch = {"branch": "main", "ref": "refs/remotes/box/fix-1/main", "commit": new, "before": None}
    assert json.loads(capsys.readouterr().out)["clones"] == [
        {
            "name": "fix-1",
            "branches": [{**branch, "commits": 1, "new": 1, "rewritten": False, "stash": False}],
            "refused": [],
            "uncommitted": [],
            "ignored": [],
            "complete": True,
        }
    ]


def test_most_limits_the_size_of_new_commits(driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: fetch(most="much")) == 1
    assert capsys.readouterr().err == ("error: --most: `much` is not a size: a number with k, m or g, as in `20g`\n")
    commit(driver.folder, text="".join(map(str, range(5000))))
    assert exit_code(lambda: fetch(most="1k")) == 1
    assert "its new commits are larger than 1.02 kB" in capsys.readouterr().err
    assert exit_code(lambda: fetch(most="1m")) == 0
