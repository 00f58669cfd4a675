"""What decides whether the gate runs the tests with the lowest versions."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "changed-since-base"
WHO = {f"GIT_{role}_{what}": "t@t.test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(("git", *arguments), cwd=folder, env={**os.environ, **WHO}, capture_output=True, check=True)


def commit(folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", file)


def changed(folder: Path, base: str = "") -> tuple[bool, str]:
    run = subprocess.run(
        [folder / "scripts" / SCRIPT.name, "pyproject.toml"],
        env={**os.environ, "BASE": base},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode == 0, run.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone of a repository whose last commit but one changed pyproject.toml."""
    origin = tmp_path / "origin"
    (origin / "scripts").mkdir(parents=True)
    shutil.copy2(SCRIPT, origin / "scripts")
    git(origin, "init", "--quiet", "--initial-branch=main")
    commit(origin, "README.md", "1")
    commit(origin, "pyproject.toml", "1")
    commit(origin, "README.md", "2")
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    return tmp_path / "clone"


def test_a_clone_of_the_upstream_branch_is_compared_with_the_parent_or_the_named_base(clone: Path) -> None:
    assert changed(clone) == (False, "")
    assert changed(clone, base="HEAD~2") == (True, "")


def test_commits_and_edits_on_top_of_the_upstream_branch_count(clone: Path) -> None:
    commit(clone, "README.md", "3")
    assert changed(clone) == (False, "")
    commit(clone, "pyproject.toml", "2")
    commit(clone, "README.md", "4")
    assert changed(clone) == (True, "")
    git(clone, "reset", "--hard", "--quiet", "origin/main")
    (clone / "pyproject.toml").write_text("3")
    assert changed(clone) == (True, "")


@pytest.mark.parametrize("base", ["", "0" * 40])
def test_without_a_base_everything_counts_as_changed(clone: Path, base: str) -> None:
    git(clone, "remote", "remove", "origin")
    assert changed(clone, base) == (True, "no commit to compare with: counted as changed: pyproject.toml\n")
