from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.render.dotenv import set_variables
from agent_sandbox.render.formats.header import stamped
from agent_sandbox.render.reconcile import Change, Verdict
from agent_sandbox.runtime.git.worktree import Outside
from agent_sandbox.runtime.init.git_exclude import COMMENT, EXCLUDE, exclude_file, excluding, ignoring, to_exclude

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


OURS = {path: stamped("x\n", comment="#") for path in (COMPOSE, DEVCONTAINER)} | {
    ".env": set_variables("", {"COMPOSE_FILE": COMPOSE, "COMPOSE_PROJECT_NAME": "app-1"})
}


def present(**texts: str) -> list[Change]:
    files = OURS | {POLICY: "version: 1\n"} | texts
    return [Change(path=path, before=text, after=text, verdict=Verdict.UNCHANGED) for path, text in files.items()]


LINES = f"{COMMENT}\n/{COMPOSE}\n/{DEVCONTAINER}\n/.env\n"


def test_gitignore_lists_the_files_of_this_machine_also_later_and_outside_a_repository(tmp_path: Path) -> None:
    change = ignoring(tmp_path, present())
    assert (change.path, change.verdict, change.before, change.after) == (".gitignore", Verdict.WRITTEN, None, LINES)
    (tmp_path / ".gitignore").write_text(LINES)
    assert ignoring(tmp_path, present()).verdict is Verdict.UNCHANGED


@pytest.mark.parametrize(("before", "end"), [("*.log", "\n"), ("*.log\n", ""), ("*.log\r\n", "")])
def test_gitignore_keeps_the_lines_of_others(tmp_path: Path, before: str, end: str) -> None:
    (tmp_path / ".gitignore").write_bytes(before.encode())
    change = ignoring(tmp_path, present())
    lines = LINES.replace("\n", "\r\n") if "\r" in before else LINES
    assert (change.verdict, change.after) == (Verdict.MERGED, f"{before}{end}{lines}")


def test_gitignore_does_not_list_what_is_partly_the_users(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(f"{COMPOSE}\n")
    theirs = present(**{DEVCONTAINER: "{}", ".env": f"A=1\n{OURS['.env']}"})
    assert ignoring(tmp_path, theirs).verdict is Verdict.UNCHANGED


def test_what_gitignore_will_list_is_not_excluded_too(repository: Path) -> None:
    new = [Change(path=path, before=None, after=text, verdict=Verdict.WRITTEN) for path, text in OURS.items()]
    assert to_exclude(repository, [*new, ignoring(repository, new)], EXCLUDE) == ()


def test_a_gitignore_that_is_a_link_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").symlink_to("/etc/hostname")
    with pytest.raises(UserError) as raised:
        ignoring(tmp_path, present())
    assert str(raised.value) == (
        f"{tmp_path}/.gitignore: cannot be used: too many levels of symbolic links; "
        "agent-sandbox does not follow symbolic links: replace it with a real file or directory"
    )


def test_without_a_repository_there_is_nothing_to_exclude(tmp_path: Path) -> None:
    assert exclude_file(tmp_path, None) is None
    (tmp_path / ".git").write_text("gitdir: ../elsewhere\n")
    assert exclude_file(tmp_path, None) is None


def test_a_worktree_has_the_exclude_file_of_its_repository(tmp_path: Path) -> None:
    outside = Outside(common=tmp_path / "main" / ".git", name="feature")
    assert exclude_file(tmp_path, outside) == str(tmp_path / "main" / ".git" / "info" / "exclude")
