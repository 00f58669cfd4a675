from pathlib import Path

import pytest

from agent_sandbox.runtime.repositories import Kind, Place, places
from repositories import bare, repository


def found(project: Path, *, limit: int = 1000) -> set[tuple[str, str]]:
    return {(place.kind.value, place.path) for place in places(project, limit=limit)}


def test_a_project_without_git_has_none(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert found(tmp_path) == set()


def test_the_projects_own_repository_and_others_in_it(tmp_path: Path) -> None:
    repository(tmp_path)
    repository(tmp_path / "vendor" / "one")
    bare(tmp_path / "mirror.git")
    assert found(tmp_path) == {
        ("repository", ".git"),
        ("repository", "vendor/one/.git"),
        ("repository", "mirror.git"),
    }


def test_a_submodules_repository_lies_in_the_projects_and_a_file_leads_to_it(tmp_path: Path) -> None:
    repository(tmp_path)
    bare(tmp_path / ".git" / "modules" / "libs" / "one")
    (tmp_path / "libs" / "one").mkdir(parents=True)
    (tmp_path / "libs" / "one" / ".git").write_text("gitdir: ../../.git/modules/libs/one\n")
    assert found(tmp_path) == {
        ("repository", ".git"),
        ("repository", ".git/modules/libs/one"),
        ("pointer", "libs/one"),
    }


def test_what_git_keeps_of_a_worktree(tmp_path: Path) -> None:
    place = repository(tmp_path) / "worktrees" / "feature"
    place.mkdir(parents=True)
    for name in ("HEAD", "commondir", "gitdir"):
        (place / name).write_text("x")
    assert ("worktree", ".git/worktrees/feature") in found(tmp_path)


def test_a_commondir_stands_for_objects_and_refs(tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_text("x")
    assert found(tmp_path) == set()
    (tmp_path / "commondir").write_text("/elsewhere")
    assert found(tmp_path) == {("worktree", "")}


@pytest.mark.parametrize("name", ["HEAD", "objects", "refs"])
def test_a_directory_that_lacks_one_of_three_is_no_repository(tmp_path: Path, name: str) -> None:
    git = bare(tmp_path / ".git")
    (git / name).rename(git / "other")
    assert found(tmp_path) == set()


def test_a_link_called_git_is_a_pointer_and_is_not_followed(tmp_path: Path) -> None:
    bare(tmp_path / "elsewhere" / "git")
    project = tmp_path / "project"
    project.mkdir()
    (project / ".git").symlink_to(tmp_path / "elsewhere" / "git")
    (project / "link").symlink_to(tmp_path / "elsewhere")
    assert list(places(project)) == [Place(kind=Kind.POINTER, path="")]


def test_many_sources_hide_nothing_that_is_in_gits_own_directory(tmp_path: Path) -> None:
    bare(repository(tmp_path) / "modules" / "one")
    for number in range(50):
        (tmp_path / f"source-{number}").mkdir()
    assert found(tmp_path, limit=10) == {("repository", ".git"), ("repository", ".git/modules/one")}


def test_the_look_is_bounded(tmp_path: Path) -> None:
    bare(tmp_path / "a" / "b" / "c")
    assert found(tmp_path, limit=3) == set()
    assert found(tmp_path, limit=4) == {("repository", "a/b/c")}


def test_a_directory_that_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    assert found(tmp_path / "gone") == set()
