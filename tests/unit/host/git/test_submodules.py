import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.host.git import git_config
from agent_sandbox.host.git.git_config import NotSaidError, Patience, Settings
from agent_sandbox.host.git.repositories import search
from agent_sandbox.host.git.submodules import names_by
from repositories import bare, repository

COMMIT = "1" * 40


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True)


def pointer(project: Path, path: str, target: str) -> None:
    (project / path).mkdir(parents=True, exist_ok=True)
    (project / path / ".git").write_text(f"gitdir: {target}\n")


def found(project: Path) -> set[str]:
    """Search with a limit at which a walk of the files finds only the root."""
    names = names_by(Settings(Patience()))
    return {f"{one.kind.value} {one.path}" for one in search(project, names_of=names, limit=4).places} - {
        "repository .git"
    }


def by_gitmodules(project: Path) -> None:
    (project / ".gitmodules").write_text('[submodule "sub"]\n\tpath = deep/er/fe\n\turl = x\n')


def by_the_index(project: Path) -> None:
    git(project, "update-index", "--add", "--cacheinfo", f"160000,{COMMIT},deep/er/fe")


def by_its_own_settings(project: Path) -> None:
    module = bare(project / ".git" / "modules" / "sub")
    (module / "config").write_text("[core]\n\tworktree = ../../../deep/er/fe\n")
    (project / ".git" / "config").write_text('[submodule "sub"]\n\turl = x\n')


def by_a_worktree(project: Path) -> None:
    place = project / ".git" / "worktrees" / "sub"
    place.mkdir(parents=True)
    for name in ("HEAD", "commondir"):
        (place / name).write_text("ref: refs/heads/x\n" if name == "HEAD" else "../..\n")
    (place / "gitdir").write_text(f"{project}/deep/er/fe/.git\n")


@pytest.mark.parametrize("name", [by_gitmodules, by_the_index, by_its_own_settings, by_a_worktree])
def test_finds_submodules_and_worktrees_by_name_among_many_directories(
    tmp_path: Path, name: Callable[[Path], None]
) -> None:
    git(tmp_path, "init", "--quiet", "--template=")
    for number in range(20):
        (tmp_path / f"a{number}" / "b").mkdir(parents=True)
    pointer(tmp_path, "deep/er/fe", "/elsewhere")
    name(tmp_path)
    assert "pointer deep/er/fe" in found(tmp_path)


def test_finds_a_submodules_repository_by_its_settings_among_many_directories(tmp_path: Path) -> None:
    git_directory = repository(tmp_path)
    for number in range(20):
        (git_directory / "modules" / f"a{number}").mkdir(parents=True)
    bare(git_directory / "modules" / "z" / "fe")
    (git_directory / "config").write_text('[submodule "z/fe"]\n\turl = x\n')
    assert found(tmp_path) == {"repository .git/modules/z/fe"}


def test_runs_no_fsmonitor_program_to_read_the_index(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--template=")
    by_the_index(tmp_path)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(program))
    git(tmp_path, "update-index", "--fsmonitor")  # from now on, reading the index runs it
    (tmp_path / "ran").unlink(missing_ok=True)
    git(tmp_path, "ls-files", "--stage")
    (tmp_path / "ran").unlink()
    git(tmp_path, "config", "core.worktree", "/gone")
    assert list(names_by(Settings(Patience()))(tmp_path / ".git", tmp_path))[-1] == tmp_path / "deep/er/fe"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", [".gitmodules", ".git/index", ".git/commondir", ".git/objects/info/alternates"])
def test_does_not_wait_for_named_pipes(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_config, "SECONDS", 600)  # longer than a test can take
    repository(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    assert found(tmp_path) == set()


def test_a_repository_that_blocks_git_names_nothing_and_reading_its_settings_raises(tmp_path: Path) -> None:
    os.mkfifo(repository(tmp_path) / "pipe")
    (tmp_path / ".git" / "config").write_text("[include]\n\tpath = pipe\n")
    settings = Settings(Patience())
    assert list(names_by(settings)(tmp_path / ".git", tmp_path)) == []
    with pytest.raises(NotSaidError):
        settings.of(tmp_path / ".git")


def test_without_git_names_no_submodules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_gitmodules(repository(tmp_path).parent)
    (tmp_path / ".git" / "index").write_text("x")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(names_by(Settings(Patience()))(tmp_path / ".git", tmp_path)) == []
