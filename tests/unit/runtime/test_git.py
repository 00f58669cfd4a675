import os
import subprocess
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.git import ask_git
from repositories import repository


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Make a repository that lacks the blob of its one file, and says by which program to fetch it."""
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


def test_no_program_that_the_settings_name_is_run_for_an_object_that_is_missing(hostile: Path) -> None:
    said = ask_git("cat-file", "blob", "HEAD:file", cwd=hostile)
    assert (said.code, said.out, (hostile / "run").exists()) == (128, "", False)


def test_settings_that_keep_git_waiting_are_named_at_once(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (git / "config").write_text("[include]\n\tpath = pipe\n")
    os.mkfifo(git / "pipe")
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError) as refused:
        ask_git("rev-parse", "HEAD", cwd=tmp_path / "a")
    assert str(refused.value) == (
        f"{git}: git does not answer: the repository's settings include something that never ends; "
        "look for a named pipe among the files that `git config --list --show-origin` reads"
    )


def test_so_is_a_repository_that_git_gives_no_answer_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = repository(tmp_path)
    os.mkfifo(git / "packed-refs")
    (git / "refs" / "heads").mkdir()
    monkeypatch.setattr("agent_sandbox.runtime.git.SECONDS", 0.1)
    with pytest.raises(UserError) as refused:
        ask_git("rev-parse", "HEAD", cwd=tmp_path)
    assert refused.value.problems[0].where == str(git)


def test_what_is_there_is_read(hostile: Path) -> None:
    assert ask_git("ls-tree", "--name-only", "HEAD", cwd=hostile).out == "file\n"
