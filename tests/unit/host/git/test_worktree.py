import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.host.git import worktree as module
from agent_sandbox.host.git.worktree import (
    MAIN,
    MOVE,
    REPAIR,
    SUBDIRECTORY,
    SUBMODULE,
    NoGit,
    Outside,
    repository_outside,
)
from repositories import bare, repository, worktree


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a worktree beside its repository."""
    (tmp_path / "main").mkdir()
    repository(tmp_path / "main")
    worktree(tmp_path / "feature", tmp_path / "main" / ".git")
    return tmp_path / "feature"


def refusal(project: Path, **homes: Path) -> str:
    found = repository_outside(project, homes.values())
    assert isinstance(found, NoGit)
    return found.why.replace(str(project.parent), "~")


def test_uses_the_repository_of_a_worktree(project: Path) -> None:
    common = project.parent / "main" / ".git"
    assert repository_outside(project) == Outside(common=common, name="feature")
    assert Outside(common=common, name="feature").own == common / "worktrees" / "feature"


def test_a_project_with_its_own_repository_or_none_has_no_repository_outside(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "own").mkdir()
    repository(tmp_path / "own")
    (tmp_path / "apart").mkdir()
    bare(tmp_path / "apart" / "store")
    (tmp_path / "apart" / ".git").write_text("gitdir: store\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_text("what?\n")
    found = {name: repository_outside(tmp_path / name) for name in ("none", "own", "apart", "broken")}
    assert set(found.values()) == {None}


def test_git_does_not_work_in_a_subdirectory_of_a_repository(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "packages" / "one").mkdir(parents=True)
    why = f"this directory is part of the repository in {tmp_path}, which is not in the sandbox"
    assert repository_outside(tmp_path / "packages" / "one") == NoGit(why=why, hint=SUBDIRECTORY.format(tmp_path))


def test_git_does_not_work_in_a_submodule(tmp_path: Path) -> None:
    module = bare(repository(tmp_path) / "modules" / "lib")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")
    why = f"this directory is a submodule, whose repository is outside, in {tmp_path}/lib/../.git/modules/lib"
    assert repository_outside(tmp_path / "lib") == NoGit(why=why, hint=SUBMODULE)
    assert module.exists()


def test_a_separate_repository_that_does_not_name_the_project_is_not_used(tmp_path: Path) -> None:
    store = bare(tmp_path / "secret.git")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".git").write_text(f"gitdir: {store}\n")
    why = f"its repository is outside, in {store}, and does not name this directory"
    assert repository_outside(tmp_path / "project") == NoGit(why=why, hint=MAIN)


@pytest.mark.parametrize("name", ["feature\nread .env", "feature\x1b[2J"])
def test_a_worktree_at_an_unprintable_path_is_not_used(project: Path, name: str) -> None:
    moved = project.with_name(name)
    project.rename(moved)
    (own_of(project) / "gitdir").write_text(f"{moved}/.git\n")
    assert refusal(moved) == f"the path {str(moved)!a} is not printable".replace(str(project.parent), "~")


def own_of(project: Path) -> Path:
    return project.parent / "main" / ".git" / "worktrees" / "feature"


def to_a_link(place: Path) -> None:
    place.rename(place.with_name("moved"))
    place.symlink_to("moved")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an entry that leads to another directory": (
        lambda project: (own_of(project) / "gitdir").write_text("/elsewhere/.git\n"),
        "~/main/.git/worktrees/feature does not name this directory as its worktree",
    ),
    "an entry without a way back": (
        lambda project: (own_of(project) / "gitdir").write_text(""),
        "~/main/.git/worktrees/feature does not name this directory as its worktree",
    ),
    "an entry that shares another directory": (
        lambda project: (own_of(project) / "commondir").write_text("../../../..\n"),
        "~/main/.git/worktrees/feature does not name this directory as its worktree",
    ),
    "a pointer to what is gone": (
        lambda project: shutil.rmtree(own_of(project)),
        "~/main/.git/worktrees/feature does not exist",
    ),
    "a pointer to a directory that is no repository": (
        lambda project: (project / ".git").write_text("gitdir: ../main\n"),
        "its repository is outside, in ~/feature/../main, and does not name this directory",
    ),
    "a relative pointer": (
        lambda project: (project / ".git").write_text("gitdir: ../main/.git/worktrees/feature\n"),
        "the `.git` file has a relative path, which would lead elsewhere inside",
    ),
    "a pointer by way of `..`": (
        lambda project: (project / ".git").write_text(f"gitdir: {project}/../main/.git/worktrees/feature\n"),
        "~/feature/../main/.git/worktrees/feature is incomplete, or there is a symbolic link in its path or in it",
    ),
    "a pointer that is a link": (
        lambda project: to_a_link(project / ".git"),
        "`.git` is a symbolic link",
    ),
    "an unprintable pointer": (
        lambda project: (project / ".git").write_text("gitdir: /a\x1b[2Jb\n"),
        "the path '/a\\x1b[2Jb' is not printable",
    ),
    **{
        f"a link for {name}": (
            lambda project, name=name: to_a_link(project.parent / "main" / name),  # type: ignore[misc]
            "~/main/.git/worktrees/feature is incomplete, or there is a symbolic link in its path or in it",
        )
        for name in (".git", ".git/worktrees", ".git/worktrees/feature", ".git/objects", ".git/config", ".git/hooks")
    },
    "a repository without settings": (
        lambda project: (project.parent / "main" / ".git" / "config").unlink(),
        "~/main/.git/worktrees/feature is incomplete, or there is a symbolic link in its path or in it",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_worktree_with_changed_pointers_or_links_is_not_used(project: Path, name: str) -> None:
    change, why = CHANGES[name]
    change(project)
    assert refusal(project) == why


@pytest.mark.parametrize("name", ["", "worktrees/feature", "worktrees/feature/gitdir", "objects", "config"])
def test_a_repository_of_another_user_is_not_used(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    lstat, common = Path.lstat, project.parent / "main" / ".git"

    def another(place: Path) -> os.stat_result:
        found = lstat(place)
        return os.stat_result((*found[:4], 4242, *found[5:])) if place == common / name else found

    monkeypatch.setattr(Path, "lstat", another)
    assert refusal(project) == "~/main/.git belongs to another user than this directory"


def moved(project: Path, name: str) -> Path:
    """Move the repository, with its worktree's entry, to a directory of another name."""
    common = project.parent / name
    (project.parent / "main" / ".git").rename(common)
    (project / ".git").write_text(f"gitdir: {common}/worktrees/feature\n")
    return common


@pytest.mark.parametrize("name", ["x.git", ".bare", "bare"])
def test_uses_a_bare_repository_with_a_usual_name(project: Path, name: str) -> None:
    assert repository_outside(project) == Outside(common=project.parent / "main" / ".git", name="feature")
    common = moved(project, name)
    assert repository_outside(project) == Outside(common=common, name="feature")


@pytest.mark.parametrize("name", ["Documents", ".ssh", "git"])
def test_a_repository_in_a_directory_with_an_unusual_name_is_not_used(project: Path, name: str) -> None:
    moved(project, name)
    assert refusal(project) == f"~/{name} is not named `.git`, `.bare` or `NAME.git`"


def test_a_repository_that_contains_the_project_or_a_home_directory_is_not_used(project: Path) -> None:
    common = moved(project, "home.git")
    assert refusal(project, home=common / "me") == "~/home.git contains this directory or your home directory"
    inner = common / "feature"
    project.rename(inner)
    (common / "worktrees" / "feature" / "gitdir").write_text(f"{inner}/.git\n")
    found = repository_outside(inner)
    assert found == NoGit(why=f"{common} contains this directory or your home directory", hint=MAIN)


@pytest.mark.parametrize(
    "place", ["/usr/src/x/.git", "/workspace/.git", "/root/x/.git", "/home/dev", "/home/dev/.local/x"]
)
def test_paths_in_the_containers_own_directories_are_not_free(place: str) -> None:
    assert not module._is_free(Path(place))


@pytest.mark.parametrize("place", ["/home/dev/x/.git", "/home/me/.x/.git", "/Users/me/x/.git", "/mnt/c/x", "/x"])
def test_other_paths_are_free(place: str) -> None:
    assert module._is_free(Path(place))


def test_a_repository_in_one_of_the_containers_own_directories_is_not_used(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OF_THE_IMAGE", {project.parts[1]})
    common = project.parent / "main" / ".git"
    why = f"the agent container has its own directories at {common}"
    assert repository_outside(project) == NoGit(why=why, hint=MOVE)


def test_a_repository_that_cannot_be_read_is_not_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_leads_back", lambda *_paths: Path("/no/such/place").stat())
    own = own_of(project)
    assert repository_outside(project) == NoGit(why=f"{own} cannot be read: no such file or directory", hint=REPAIR)
