import errno
import os
from pathlib import Path

import pytest

from agent_sandbox.proxy.audit.rotating_file import RotatedFile


def test_drops_the_oldest_lines_when_the_files_are_full(tmp_path: Path) -> None:
    log = RotatedFile(tmp_path / "log" / "traffic.jsonl", limit=10, older=2)
    for number in range(6):
        log.write(b"line %d\n" % number)
    log.close()
    got = {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()}
    assert got == {"traffic.jsonl": b"line 5\n", "traffic.jsonl.1": b"line 4\n", "traffic.jsonl.2": b"line 3\n"}


def test_appends_to_an_existing_log(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = RotatedFile(tmp_path / "x")
        log.write(text)
        log.close()
    assert (tmp_path / "x").read_bytes() == b"one\ntwo\n"


def test_writes_a_line_that_is_longer_than_the_limit(tmp_path: Path) -> None:
    log = RotatedFile(tmp_path / "x", limit=3)
    log.write(b"long line\n")
    log.close()
    assert (tmp_path / "x").read_bytes() == b"long line\n"


def test_a_full_disk_leaves_no_partial_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, real = RotatedFile(tmp_path / "x"), os.write
    log.write(b"before\n")

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, bytes(data[:2]))

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        log.write(b"lost\n")
    monkeypatch.setattr(os, "write", real)
    log.write(b"after\n")
    log.close()
    assert (tmp_path / "x").read_bytes() == b"before\nafter\n"


def test_keeps_the_older_files_if_no_new_file_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RotatedFile(tmp_path / "x", limit=10, older=2)
    for text in (b"oldest\n", b"older\n", b"newer\n"):
        log.write(text)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as while_full:
        while_full.setattr(os, "open", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                log.write(b"lost\n")
        with (tmp_path / "a client").open("wb"), pytest.raises(OSError, match="No space left"):
            log.write(b"lost\n")
    log.write(b"after\n")
    log.close()
    got = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert got == {"x": b"after\n", "x.1": b"newer\n", "x.2": b"older\n", "a client": b""}


def test_does_not_follow_a_link_at_the_path_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RotatedFile(tmp_path / "x")
