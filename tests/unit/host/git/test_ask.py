import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.host.git.ask import ask_git, pushes_by_name
from agent_sandbox.problems import UserError
from repositories import repository


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Make a partial clone that lacks the blob of its only file and names a program to fetch it."""
    (tmp_path / "file").write_text("content\n")
    who = ("-c", "user.name=me", "-c", "user.email=me@example.com")
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {tmp_path}/run",
        "protocol.ext.allow": "always",
    }
    for argv in (
        ("init", "--quiet"),
        ("add", "."),
        (*who, "commit", "--quiet", "-m", "x"),
        *(("config", name, value) for name, value in settings.items()),
    ):
        subprocess.run(["git", *argv], cwd=tmp_path, check=True)
    blob = ask_git("rev-parse", "HEAD:file", cwd=tmp_path).out.strip()
    (tmp_path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return tmp_path


def test_does_not_run_the_program_of_a_promisor_remote_for_a_missing_object(hostile: Path) -> None:
    said = ask_git("cat-file", "blob", "HEAD:file", cwd=hostile)
    assert (said.code, said.out, (hostile / "run").exists()) == (128, "", False)


def test_reports_settings_that_block_git(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (git / "config").write_text("[include]\n\tpath = pipe\n")
    os.mkfifo(git / "pipe")
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError) as refused:
        ask_git("rev-parse", "HEAD", cwd=tmp_path / "a")
    assert str(refused.value) == (
        f"{git}: git does not answer: the repository's settings include a file that blocks; "
        "look for a named pipe among the files that `git config --list --show-origin` reads"
    )


def test_names_the_repository_if_git_does_not_answer_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = repository(tmp_path)
    os.mkfifo(git / "packed-refs")
    (git / "refs" / "heads").mkdir()
    monkeypatch.setattr("agent_sandbox.host.git.ask.SECONDS", 0.1)
    with pytest.raises(UserError) as refused:
        ask_git("rev-parse", "HEAD", cwd=tmp_path)
    assert refused.value.problems[0].where == str(git)


def test_reads_a_tree_of_a_repository_with_missing_objects(hostile: Path) -> None:
    assert ask_git("ls-tree", "--name-only", "HEAD", cwd=hostile).out == "file\n"


def git(folder: Path, *argv: str) -> str:
    who = ("-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "advice.graftFileDeprecated=false")
    done = subprocess.run(["git", *who, *argv], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def replaced_blob(folder: Path) -> None:
    (folder / "wide").write_text("forged\n")
    forged = git(folder, "hash-object", "-w", "wide")
    git(folder, "replace", git(folder, "rev-parse", "HEAD~1:file"), forged)


def replaced_commit(folder: Path) -> None:
    git(folder, "replace", "HEAD~1", git(folder, "commit-tree", "-m", "forged", "HEAD^{tree}"))


def replaced_with_the_settings_word(folder: Path) -> None:
    replaced_blob(folder)
    git(folder, "config", "core.useReplaceRefs", "true")


def grafted(folder: Path) -> None:
    forged = git(folder, "commit-tree", "-m", "forged", "HEAD^{tree}")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "grafts").write_text(f"{git(folder, 'rev-parse', 'HEAD')} {forged}\n")


@pytest.mark.parametrize("forge", [replaced_blob, replaced_commit, replaced_with_the_settings_word, grafted])
def test_ignores_replace_refs_and_grafts(forge: Callable[[Path], None], tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    for text in ("first\n", "second\n"):
        (tmp_path / "file").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "-m", text)
    forge(tmp_path)
    assert git(tmp_path, "cat-file", "blob", "HEAD~1:file") in {"forged", "second"}
    said = ask_git("cat-file", "blob", "HEAD~1:file", cwd=tmp_path)
    assert (said.code, said.out, said.err) == (0, "first\n", "")


def test_disables_the_commit_graph(tmp_path: Path) -> None:
    assert ask_git("config", "core.commitGraph", cwd=tmp_path).out == "false\n"


@pytest.mark.parametrize(
    ("own", "repository", "expected"),
    [
        ("", "", True),
        ("simple", "", True),
        ("current", "matching", True),
        ("upstream", "", False),
        ("upstream", "simple", False),
        ("", "tracking", False),
        ("", "whatever-comes-later", False),
    ],
)
def test_pushes_by_name_unless_a_push_default_setting_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, repository: str, *, expected: bool
) -> None:
    mine = tmp_path / "mine"
    mine.write_text(f"[push]\n\tdefault = {own}\n" if own else "")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    git(tmp_path, "init", "--quiet")
    if repository:
        git(tmp_path, "config", "push.default", repository)
    assert pushes_by_name(tmp_path) == expected


def test_does_not_push_by_name_if_git_fails_or_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "--quiet")
    with (tmp_path / ".git" / "config").open("a") as file:
        file.write("[push\n")
    assert not pushes_by_name(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not pushes_by_name(tmp_path)
