import os
from pathlib import Path

import pytest

from agent_sandbox.host.git import repositories
from agent_sandbox.host.git.repositories import Found, Kind, Place, search
from repositories import bare, repository


def found(project: Path, *, limit: int = 1000) -> set[tuple[str, str]]:
    return {(place.kind.value, place.path) for place in search(project, limit=limit).places}


def test_finds_nothing_in_a_project_without_git(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert found(tmp_path) == set()


def test_finds_the_projects_repository_and_nested_repositories(tmp_path: Path) -> None:
    repository(tmp_path)
    repository(tmp_path / "vendor" / "one")
    bare(tmp_path / "mirror.git")
    assert found(tmp_path) == {
        ("repository", ".git"),
        ("repository", "vendor/one/.git"),
        ("repository", "mirror.git"),
    }


def test_finds_a_submodules_repository_and_the_file_that_points_to_it(tmp_path: Path) -> None:
    repository(tmp_path)
    bare(tmp_path / ".git" / "modules" / "libs" / "one")
    (tmp_path / "libs" / "one").mkdir(parents=True)
    (tmp_path / "libs" / "one" / ".git").write_text("gitdir: ../../.git/modules/libs/one\n")
    assert found(tmp_path) == {
        ("repository", ".git"),
        ("repository", ".git/modules/libs/one"),
        ("pointer", "libs/one"),
    }


def test_finds_the_entry_of_a_worktree(tmp_path: Path) -> None:
    place = repository(tmp_path) / "worktrees" / "feature"
    place.mkdir(parents=True)
    for name in ("HEAD", "commondir", "gitdir"):
        (place / name).write_text("x")
    assert ("worktree", ".git/worktrees/feature") in found(tmp_path)


def test_accepts_commondir_instead_of_objects_and_refs(tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_text("x")
    assert found(tmp_path) == set()
    (tmp_path / "commondir").write_text("/elsewhere")
    assert found(tmp_path) == {("worktree", "")}


@pytest.mark.parametrize("name", ["HEAD", "objects", "refs"])
def test_a_directory_without_head_objects_or_refs_is_not_a_repository(tmp_path: Path, name: str) -> None:
    git = bare(tmp_path / ".git")
    (git / name).rename(git / "other")
    assert found(tmp_path) == set()


def test_a_symbolic_link_named_git_is_a_pointer_and_is_not_followed(tmp_path: Path) -> None:
    bare(tmp_path / "elsewhere" / "git")
    project = tmp_path / "project"
    project.mkdir()
    (project / ".git").symlink_to(tmp_path / "elsewhere" / "git")
    (project / "link").symlink_to(tmp_path / "elsewhere")
    assert list(search(project).places) == [Place(kind=Kind.POINTER, path="")]


def test_searches_the_git_directory_even_if_the_project_has_too_many_directories(tmp_path: Path) -> None:
    bare(repository(tmp_path) / "modules" / "one")
    for number in range(50):
        (tmp_path / f"source-{number}").mkdir()
    assert found(tmp_path, limit=10) == {("repository", ".git"), ("repository", ".git/modules/one")}


def test_stops_searching_at_the_limit(tmp_path: Path) -> None:
    bare(tmp_path / "a" / "b" / "c")
    assert found(tmp_path, limit=3) == set()
    assert found(tmp_path, limit=4) == {("repository", "a/b/c")}


def test_finds_nothing_in_a_missing_directory(tmp_path: Path) -> None:
    assert found(tmp_path / "gone") == set()


@pytest.mark.parametrize(
    "path",
    [
        "fe",
        "be/.git",
        "00/ad/de.git",
        "objects/ab",
        ".git/modules/fe",
        ".git/modules/FE",
        ".git/modules/libs/de",
        ".git/modules/de/libs",
        ".git/modules/fe/modules/be",
        ".git/modules/HEAD",
        ".git/modules/refs",
        ".git/modules/objects",
        ".git/modules/logs",
        ".git/modules/hooks/modules/modules",
        ".git/worktrees/de/modules/fe",
    ],
)
def test_finds_repositories_with_any_name(tmp_path: Path, path: str) -> None:
    repository(tmp_path)
    bare(tmp_path / path)
    assert ("repository", path) in found(tmp_path)


def test_finds_a_worktree_named_like_an_object_directory(tmp_path: Path) -> None:
    place = repository(tmp_path) / "worktrees" / "de"
    place.mkdir(parents=True)
    (place / "HEAD").write_text("x")
    (place / "commondir").write_text("../..")
    assert ("worktree", ".git/worktrees/de") in found(tmp_path)


def test_finds_submodules_whose_parent_directory_looks_like_a_repository(tmp_path: Path) -> None:
    modules = repository(tmp_path) / "modules"
    for name in ("HEAD", "objects", "refs"):
        bare(modules / name)
    expected = {("repository", f".git/modules/{name}") for name in ("HEAD", "objects", "refs")}
    assert found(tmp_path) == {("repository", ".git"), *expected}
    (modules / "HEAD").rename(modules / "other")
    (modules / "HEAD").write_text("ref: x")
    assert {("repository", f".git/modules/{name}") for name in ("other", "objects", "refs")} <= found(tmp_path)


def test_does_not_search_object_and_ref_directories(tmp_path: Path) -> None:
    git = repository(tmp_path)
    for number in range(256):
        (git / "objects" / f"{number:02x}").mkdir()
        (git / "refs" / "heads" / str(number)).mkdir(parents=True)
    assert search(tmp_path, limit=10) == Found(places=(Place(kind=Kind.REPOSITORY, path=".git"),))


@pytest.mark.parametrize("target", ["{}/store/one", "../../store/one", "../../link/one"])
def test_follows_a_pointer_to_its_repository(tmp_path: Path, target: str) -> None:
    bare(repository(tmp_path) / "objects" / "ab" / "one")  # nothing is searched there
    bare(tmp_path / "store" / "one")
    (tmp_path / "link").symlink_to("store")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".git").write_text(f"gitdir: {target.format(tmp_path)}\n")
    names = [place.path for place in search(tmp_path).places]
    assert names.count("store/one") == 1
    (tmp_path / "a" / "b" / ".git").write_text("gitdir: ../../.git/objects/ab/one\n")
    assert ("repository", ".git/objects/ab/one") in found(tmp_path)


def test_reads_a_pointer_up_to_a_null_byte(tmp_path: Path) -> None:
    bare(repository(tmp_path) / "objects" / "ab" / "one")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".git").write_bytes(b"gitdir: ../.git/objects/ab/one\0/more\n")
    assert ("repository", ".git/objects/ab/one") in found(tmp_path)


def test_resolves_a_pointer_behind_a_symbolic_link_against_the_links_directory(tmp_path: Path) -> None:
    bare(repository(tmp_path) / "objects" / "ab" / "one")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "b" / "pointer").write_text("gitdir: ../.git/objects/ab/one\n")
    (tmp_path / "a" / ".git").symlink_to("../b/pointer")
    assert ("repository", ".git/objects/ab/one") in found(tmp_path)
    (tmp_path / "b" / "pointer").rename(tmp_path / "pointer")
    (tmp_path / "a" / ".git").unlink()
    (tmp_path / "a" / ".git").symlink_to("../pointer")
    assert ("repository", ".git/objects/ab/one") in found(tmp_path)


@pytest.mark.parametrize(
    "links",
    [
        {"lib": "../.git/objects/ab/one"},
        {"lib": "../.git/objects/ab"},
        {"lib": "../.git/refs/up/objects/ab"},
        {"lib": "{}/.git/objects/ab/one"},
        {"lib": "../../{.name}/.git/objects"},
        {"a": "z/objects/ab/one", "z": "../.git"},
        {"a": "z", "z": "../.git/objects/ab/one"},
        {"a": "z/../objects/ab/one", "z": "../.git/refs"},
    ],
)
def test_searches_the_targets_of_symbolic_links_into_the_git_directory(tmp_path: Path, links: dict[str, str]) -> None:
    git = repository(tmp_path)
    repository(git / "objects" / "ab" / "one")
    (git / "refs" / "up").symlink_to("..")
    (tmp_path / "src").mkdir()
    for name, target in links.items():
        (tmp_path / "src" / name).symlink_to(target.format(tmp_path))
    assert ("repository", ".git/objects/ab/one/.git") in found(tmp_path)


def test_does_not_resolve_symbolic_links_between_project_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path)
    (tmp_path / "src" / "lib").mkdir(parents=True)
    (tmp_path / "src" / "near").symlink_to("lib")
    (tmp_path / "src" / "far").symlink_to("../src/lib")
    resolved: list[str] = []

    def realpath(path: Path) -> str:
        resolved.append(str(path))
        return str(path)

    monkeypatch.setattr("os.path.realpath", realpath)
    search(tmp_path)
    assert [path for path in resolved if "src" in path] == []


def test_reads_commondir_through_a_symbolic_link(tmp_path: Path) -> None:
    git = repository(tmp_path)
    bare(tmp_path / "common")
    (tmp_path / "common" / "HEAD").unlink()
    (tmp_path / "text").write_text("../common\n")
    (git / "commondir").symlink_to("../text")
    assert ("repository", "common") in found(tmp_path)


def test_finds_a_common_directory_without_head(tmp_path: Path) -> None:
    git = tmp_path / "sub" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "commondir").write_text("../common\n")
    bare(tmp_path / "sub" / "common")
    (tmp_path / "sub" / "common" / "HEAD").unlink()
    assert found(tmp_path) == {("worktree", "sub/.git"), ("repository", "sub/common")}


@pytest.mark.parametrize(("file", "text"), [("objects/info/alternates", "#\n\nx/o\n"), ("commondir", "objects/x")])
def test_finds_directories_that_commondir_and_alternates_name(tmp_path: Path, file: str, text: str) -> None:
    git = repository(tmp_path)
    bare(git / "objects" / "x")  # the walk leaves this one out
    assert ("repository", ".git/objects/x") not in found(tmp_path)
    (git / file).parent.mkdir(exist_ok=True)
    (git / file).write_text(text)
    assert ("repository", ".git/objects/x") in found(tmp_path)


@pytest.mark.parametrize("path", ["objects/x", "refs/x/.git", "logs/a/b"])
def test_finds_repositories_inside_a_directory_that_looks_like_a_repository(tmp_path: Path, path: str) -> None:
    bare(tmp_path)
    bare(tmp_path / path)
    assert ("repository", path) in found(tmp_path)


def test_reports_directories_that_were_not_searched(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    assert search(tmp_path, limit=2).unsearched == ("b", "c")
    assert search(tmp_path, limit=4).unsearched == ()


def test_reports_directories_with_too_many_entries_and_looks_up_known_names_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"a{number}").mkdir()
    repository(tmp_path)
    bare(tmp_path / ".git" / "modules" / "fe")
    monkeypatch.setattr(repositories, "MAX_ENTRIES", 0)
    assert search(tmp_path).places == (Place(kind=Kind.REPOSITORY, path=".git"),)
    assert search(tmp_path).unsearched == (".", ".git", ".git/modules")


def test_reports_directories_that_cannot_be_listed_and_looks_up_known_names_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path)

    def refuse(_folder: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "scandir", refuse)
    assert (found(tmp_path), search(tmp_path).unsearched) == ({("repository", ".git")}, (".", ".git"))
