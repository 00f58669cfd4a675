from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.proxy.logfile import RotatedFile, write_all

if TYPE_CHECKING:
    from pathlib import Path


def test_the_oldest_lines_go_when_the_files_are_full(tmp_path: Path) -> None:
    log = RotatedFile(tmp_path / "log" / "traffic.jsonl", limit=10, older=2)
    for number in range(6):
        log.write(b"line %d\n" % number)
    log.close()
    got = {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()}
    assert got == {"traffic.jsonl": b"line 5\n", "traffic.jsonl.1": b"line 4\n", "traffic.jsonl.2": b"line 3\n"}


def test_a_log_goes_on_where_it_was_left(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = RotatedFile(tmp_path / "x")
        log.write(text)
        log.close()
    assert (tmp_path / "x").read_bytes() == b"one\ntwo\n"


def test_a_line_that_is_longer_than_the_limit_is_written_all_the_same(tmp_path: Path) -> None:
    log = RotatedFile(tmp_path / "x", limit=3)
    log.write(b"long line\n")
    log.close()
    assert (tmp_path / "x").read_bytes() == b"long line\n"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RotatedFile(tmp_path / "x")


def test_every_byte_is_written_when_the_system_takes_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data[:2])))
    with (tmp_path / "x").open("wb") as file:
        write_all(file.fileno(), b"hello")
    assert (tmp_path / "x").read_bytes() == b"hello"
