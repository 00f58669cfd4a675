import os
import stat
from pathlib import Path

import pytest

from agent_sandbox.atomic_file import write_file


def test_writes_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    write_file(tmp_path / "secret", b"value")
    assert (tmp_path / "secret").read_bytes() == b"value"
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_sets_the_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_file(tmp_path / "ca.pem", b"public", mode=0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "ca.pem").stat().st_mode) == 0o644


def test_replaces_a_link_and_not_the_file_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / "link").symlink_to("other")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "other").read_text() == "kept"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    (tmp_path / "file").write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_file(tmp_path / "file", b"after")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "before")]


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "file", b"x")
    assert list(tmp_path.iterdir()) == []
