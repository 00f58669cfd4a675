import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.policyfile import shelf as module
from agent_sandbox.policyfile.shelf import Shelf

NAME = "a" * 64


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(folder=tmp_path / "cache" / "policies")


def names(shelf: Shelf) -> list[str]:
    return sorted(path.name for path in shelf.folder.iterdir())


def test_what_is_put_there_is_found_again_and_is_for_nobody_else(shelf: Shelf) -> None:
    assert shelf.get(NAME) is None
    shelf.put(NAME, b"one")
    shelf.put(NAME, b"two")
    assert shelf.get(NAME) == b"two"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (shelf.folder, shelf.folder / NAME)]
    assert (modes, names(shelf)) == ([0o700, 0o600], [NAME])


def whole(shelf: Shelf) -> bytes:
    return (shelf.folder / NAME).read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:40],
        lambda content: content + b" ",
        lambda content: content.replace(b"one", b"own"),
        lambda _: b"",
        lambda _: b"\xff" * 100,
    ],
)
def test_what_is_damaged_is_as_good_as_absent(shelf: Shelf, damage: Callable[[bytes], bytes]) -> None:
    shelf.put(NAME, b"one")
    (shelf.folder / NAME).write_bytes(damage(whole(shelf)))
    assert shelf.get(NAME) is None


def test_what_others_could_have_written_is_not_looked_at(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.put(NAME, b"one")
    for path, mode in ((shelf.folder, 0o770), (shelf.folder, 0o755), (shelf.folder / NAME, 0o604)):
        kept = path.stat().st_mode
        path.chmod(mode)
        assert shelf.get(NAME) is None
        path.chmod(kept)
    assert shelf.get(NAME) == b"one"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert shelf.get(NAME) is None


def test_no_link_is_followed_and_nothing_but_a_file_is_read(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(NAME, b"one")
    (tmp_path / "other").write_bytes(whole(shelf))
    (tmp_path / "other").chmod(0o600)
    (shelf.folder / NAME).unlink()
    (shelf.folder / NAME).symlink_to(tmp_path / "other")
    assert shelf.get(NAME) is None
    (shelf.folder / NAME).unlink()
    os.mkfifo(shelf.folder / NAME, 0o600)
    assert shelf.get(NAME) is None
    linked = Shelf(folder=tmp_path / "link")
    linked.folder.symlink_to(shelf.folder)
    shelf.put(NAME, b"one")
    linked.put(NAME, b"two")
    assert (linked.get(NAME), shelf.get(NAME)) == (None, b"one")


def test_nothing_is_put_into_a_folder_of_another_s_nor_made_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    Shelf(folder=tmp_path / "cache").put(NAME, b"one")
    (tmp_path / "theirs").mkdir(mode=0o700)
    Shelf(folder=tmp_path / "theirs").put(NAME, b"one")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["theirs"]


def test_what_has_been_there_longest_makes_room(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    for number, name in enumerate("abc"):
        shelf.put(name, b"one")
        os.utime(shelf.folder / name, (number, number))
    assert names(shelf) == ["b", "c"]


def test_what_is_too_long_is_not_kept(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3)
    shelf.put(NAME, b"one")
    assert not shelf.folder.exists()
    shelf.put(NAME, b"on")
    assert shelf.get(NAME) == b"on"


def test_a_fault_while_writing_is_not_told_and_leaves_nothing_half_written(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    shelf.put(NAME, b"one")
    monkeypatch.setattr(os, "replace", full)
    shelf.put(NAME, b"two")
    assert (shelf.get(NAME), names(shelf)) == (b"one", [NAME])
