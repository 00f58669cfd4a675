import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.policyfile import cache_dir as module
from agent_sandbox.policyfile.cache_dir import CacheDir

NAME = "a" * 64


@pytest.fixture
def cache_dir(tmp_path: Path) -> CacheDir:
    return CacheDir(folder=tmp_path / "cache" / "policies")


def names(cache_dir: CacheDir) -> list[str]:
    return sorted(path.name for path in cache_dir.folder.iterdir())


def test_returns_the_stored_content_and_makes_files_private(cache_dir: CacheDir) -> None:
    assert cache_dir.get(NAME) is None
    cache_dir.put(NAME, b"one")
    cache_dir.put(NAME, b"two")
    assert cache_dir.get(NAME) == b"two"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (cache_dir.folder, cache_dir.folder / NAME)]
    assert (modes, names(cache_dir)) == ([0o700, 0o600], [NAME])


def whole(cache_dir: CacheDir) -> bytes:
    return (cache_dir.folder / NAME).read_bytes()


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
def test_treats_a_damaged_file_as_absent(cache_dir: CacheDir, damage: Callable[[bytes], bytes]) -> None:
    cache_dir.put(NAME, b"one")
    (cache_dir.folder / NAME).write_bytes(damage(whole(cache_dir)))
    assert cache_dir.get(NAME) is None


def test_ignores_files_that_other_users_own_or_can_access(cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_dir.put(NAME, b"one")
    for path, mode in ((cache_dir.folder, 0o770), (cache_dir.folder, 0o755), (cache_dir.folder / NAME, 0o604)):
        kept = path.stat().st_mode
        path.chmod(mode)
        assert cache_dir.get(NAME) is None
        path.chmod(kept)
    assert cache_dir.get(NAME) == b"one"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache_dir.get(NAME) is None


def test_follows_no_links_and_reads_only_regular_files(cache_dir: CacheDir, tmp_path: Path) -> None:
    cache_dir.put(NAME, b"one")
    (tmp_path / "other").write_bytes(whole(cache_dir))
    (tmp_path / "other").chmod(0o600)
    (cache_dir.folder / NAME).unlink()
    (cache_dir.folder / NAME).symlink_to(tmp_path / "other")
    assert cache_dir.get(NAME) is None
    (cache_dir.folder / NAME).unlink()
    os.mkfifo(cache_dir.folder / NAME, 0o600)
    assert cache_dir.get(NAME) is None
    linked = CacheDir(folder=tmp_path / "link")
    linked.folder.symlink_to(cache_dir.folder)
    cache_dir.put(NAME, b"one")
    linked.put(NAME, b"two")
    assert (linked.get(NAME), cache_dir.get(NAME)) == (None, b"one")


def test_writes_nothing_into_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    CacheDir(folder=tmp_path / "cache").put(NAME, b"one")
    (tmp_path / "theirs").mkdir(mode=0o700)
    CacheDir(folder=tmp_path / "theirs").put(NAME, b"one")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["theirs"]


def test_full_cache_evicts_the_oldest_file(cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    for number, name in enumerate("abc"):
        cache_dir.put(name, b"one")
        os.utime(cache_dir.folder / name, (number, number))
    assert names(cache_dir) == ["b", "c"]


def test_does_not_store_content_over_the_size_limit(cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3)
    cache_dir.put(NAME, b"one")
    assert not cache_dir.folder.exists()
    cache_dir.put(NAME, b"on")
    assert cache_dir.get(NAME) == b"on"


def test_a_failed_write_raises_no_error_and_leaves_no_partial_file(
    cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    cache_dir.put(NAME, b"one")
    monkeypatch.setattr(os, "replace", full)
    cache_dir.put(NAME, b"two")
    assert (cache_dir.get(NAME), names(cache_dir)) == (b"one", [NAME])
