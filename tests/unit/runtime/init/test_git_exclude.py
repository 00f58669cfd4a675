from pathlib import Path

import pytest

from agent_sandbox.render.reconcile import Change, Verdict
from agent_sandbox.runtime.git.worktree import Outside
from agent_sandbox.runtime.init.git_exclude import COMMENT, EXCLUDE, exclude_file, excluding, to_exclude

COMPOSE, DEVCONTAINER, POLICY = (
    f".devcontainer/{name}" for name in ("docker-compose.yml", "devcontainer.json", "policy.yaml")
)
NEW = (COMPOSE, DEVCONTAINER, ".env")


def changes(*paths: str, verdict: Verdict = Verdict.WRITTEN) -> list[Change]:
    return [Change(path=path, before=None, after="", verdict=verdict, why="") for path in paths]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git" / "info").mkdir(parents=True)
    return tmp_path


def test_new_files_of_this_machine_are_excluded_and_the_policy_is_not(repository: Path) -> None:
    assert to_exclude(repository, changes(*NEW, POLICY), EXCLUDE) == NEW


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.WRITTEN])
def test_files_that_were_there_before_are_not(repository: Path, verdict: Verdict) -> None:
    assert to_exclude(repository, changes(*NEW, verdict=verdict), EXCLUDE) == ()


def test_files_that_are_ignored_already_are_not_named_again(repository: Path) -> None:
    (repository / EXCLUDE).write_text(f"/{COMPOSE}\n")
    (repository / ".gitignore").write_text(".env\n")
    assert to_exclude(repository, changes(*NEW), EXCLUDE) == (DEVCONTAINER,)


def test_lines_of_others_stay(repository: Path) -> None:
    assert excluding(repository, [".env"], EXCLUDE) == f"{COMMENT}\n/.env\n"
    (repository / EXCLUDE).write_text("# mine\n*.log")
    assert excluding(repository, [".env"], EXCLUDE) == f"# mine\n*.log\n{COMMENT}\n/.env\n"


def test_without_a_repository_there_is_nothing_to_exclude(tmp_path: Path) -> None:
    assert exclude_file(tmp_path, None) is None
    (tmp_path / ".git").write_text("gitdir: ../elsewhere\n")
    assert exclude_file(tmp_path, None) is None


def test_a_worktree_has_the_exclude_file_of_its_repository(tmp_path: Path) -> None:
    outside = Outside(common=tmp_path / "main" / ".git", name="feature")
    assert exclude_file(tmp_path, outside) == str(tmp_path / "main" / ".git" / "info" / "exclude")
