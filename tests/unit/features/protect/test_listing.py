import os
from collections.abc import Callable
from errno import EACCES, EIO
from pathlib import Path

import pytest

from agent_sandbox.features.protect.listing import Listing, ignores_case
from agent_sandbox.problems import UserError
from table_tests import each

LISTDIR, LEXISTS = os.listdir, os.path.lexists


def make(project: Path, *paths: str) -> None:
    for path in paths:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("")


def matching(project: Path, pattern: str, folder: str = "") -> list[str]:
    return list(Listing(project).matching(folder, pattern))


def refuse_to_list(monkeypatch: pytest.MonkeyPatch, place: Path, reason: int = EACCES) -> None:
    """Refuse to list one directory: root, who sometimes runs these tests, can list any."""

    def listdir(path: Path) -> list[str]:
        if Path(path) == place:
            raise OSError(reason, os.strerror(reason))
        return LISTDIR(path)

    monkeypatch.setattr(os, "listdir", listdir)


def ignore_case(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """Let names below `project` exist in any case, as on a Mac."""

    def lexists(path: Path) -> bool:
        folder = project
        for part in Path(path).relative_to(project).parts:
            names = {name.casefold(): name for name in LISTDIR(folder)} if folder.is_dir() else {}
            if part.casefold() not in names:
                return False
            folder /= names[part.casefold()]
        return True

    monkeypatch.setattr(os.path, "lexists", lexists)


def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Path]]:
    seen: list[Path] = []

    def listdir(path: Path) -> list[str]:
        seen.append(Path(path))
        return LISTDIR(path)

    monkeypatch.setattr(os, "listdir", listdir)
    return lambda: seen


@each(
    ("pattern", "expected"),
    [
        ("a.toml", ["a.toml"]),
        ("gone", ["gone"]),
        ("gone*", []),
        ("*.toml", ["a.toml", "b.toml"]),
        ("*.TOML", ["a.toml", "b.toml"]),
        ("a*", ["a.toml"]),
        ("d/*/f", ["d/x/f", "d/y/f"]),
        (".*/f", [".config/f"]),
        (".git/f", [".git/f"]),
        ("a.toml/f*", []),
    ],
)
def test_a_star_matches_part_of_one_name_but_not_gits_directory(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, expected: list[str]
) -> None:
    project = tmp_path_factory.mktemp("project")
    make(project, "a.toml", "b.toml", "d/x/f", "d/y/f", "d/z/other", ".config/f", ".git/f")
    assert matching(project, pattern) == expected


def test_does_not_read_the_name_of_a_folder_as_a_pattern(tmp_path: Path) -> None:
    make(tmp_path, "a*/f1", "ab/f2", "A*/f3")
    assert matching(tmp_path, "f*", "a*") == ["a*/f1"]


def test_finds_every_existing_spelling_of_a_name(tmp_path: Path) -> None:
    make(tmp_path, ".Envrc", ".ENVRC", ".envrc.d")
    assert matching(tmp_path, ".envrc") == [".envrc", ".ENVRC", ".Envrc"]


def test_returns_the_name_on_disk_if_the_disk_ignores_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, ".Envrc", ".Claude/settings.json")
    ignore_case(monkeypatch, tmp_path)
    assert matching(tmp_path, ".envrc") == [".Envrc"]
    assert matching(tmp_path, ".claude/settings.json") == [".Claude/settings.json"]
    assert matching(tmp_path, ".env") == [".env"]


def test_ignores_case_is_false_if_a_second_file_has_the_name_in_another_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, ".env")
    assert not ignores_case(tmp_path, ".env")
    make(tmp_path, ".ENV")
    assert not ignores_case(tmp_path, ".env")
    (tmp_path / ".ENV").unlink()
    ignore_case(monkeypatch, tmp_path)
    assert ignores_case(tmp_path, ".env")


@pytest.mark.parametrize("reason", [EACCES, EIO])
@pytest.mark.parametrize("pattern", [".config/mise*", ".config/mise.toml", ".*/mcp*"])
def test_a_directory_that_cannot_be_listed_is_protected_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, reason: int
) -> None:
    make(tmp_path, ".config/mise.toml")
    refuse_to_list(monkeypatch, tmp_path / ".config", reason)
    assert matching(tmp_path, pattern) == [".config"]


def test_raises_if_the_project_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_list(monkeypatch, tmp_path)
    with pytest.raises(UserError) as refused:
        matching(tmp_path, ".envrc")
    assert str(refused.value) == (
        f"{tmp_path}: cannot be listed: permission denied; "
        "`ls -ld` shows who may read it; `chmod u+rwx` gives you access"
    )


def test_lists_each_directory_once_for_many_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, ".config/mise/x", ".claude/settings.json", "src/x", "file")
    listed = counted(monkeypatch)
    listing = Listing(tmp_path)
    for number in range(50):
        for pattern in ("name", "name*", ".config/name*", ".*/name", "file/name", "gone/name*"):
            assert [path for path in listing.matching("", f"{pattern}{number}") if "*" in pattern] == []
    assert sorted(listed()) == [tmp_path, tmp_path / ".claude", tmp_path / ".config", tmp_path / "file"]


def test_compares_only_names_that_can_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr("agent_sandbox.features.protect.listing.fnmatchcase", lambda name, _: compared.append(name))
    make(tmp_path, *(f"file{number}" for number in range(100)), "lefthook.yml")
    matching(tmp_path, "lefthook*")
    assert compared == ["lefthook.yml"]
