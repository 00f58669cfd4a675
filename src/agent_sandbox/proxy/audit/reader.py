"""Read the audit log: all rotated files as one, oldest record first, and then new records as they come."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from agent_sandbox.audit_event import CHECKS
from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.audit.rotating_file import names_of

type Wanted = Callable[[bytes], bool]


def wanted(*, denied: bool) -> Wanted:
    """Return a filter for encoded records that accepts traffic, with `denied` only denied traffic."""

    def is_wanted(line: bytes) -> bool:
        try:
            values = read_json(line)
        except ValueError:
            return False  # cut off by a crash
        if not isinstance(values, dict):
            return False
        return values.get("event") not in CHECKS and (not denied or values.get("decision") == "deny")

    return is_wanted


def show(
    path: Path, write: Callable[[bytes], None], *, wanted: Wanted, tail: int | None, wait: Callable[[], bool]
) -> None:
    """Pass the last `tail` wanted lines to `write`, and new ones as long as `wait` returns true."""
    with LogReader(path) as log:
        write(b"".join(deque((line for line in log.read() if wanted(line)), maxlen=tail)))
        while wait():
            write(b"".join(line for line in log.read() if wanted(line)))


class LogReader:
    """Reads complete lines, each once, even if the files are rotated meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = _open_all(path)
        self._begun = b""
        if not self._files:
            raise UserError([Problem(where=str(path), what="no audit log", hint="has the proxy been started?")])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def read(self) -> Iterator[bytes]:
        """Yield the lines that were not read yet."""
        while True:
            yield from self._lines()
            if len(self._files) == 1 and not self._rotated():
                return
            yield from self._lines()  # written just before the rotation
            self._files.pop(0).close()

    def _lines(self) -> Iterator[bytes]:
        for piece in self._files[0]:
            self._begun += piece
            if piece.endswith(b"\n"):
                line, self._begun = self._begun, b""
                yield line

    def _rotated(self) -> bool:
        try:
            newest = self._path.open("rb")
        except FileNotFoundError:
            return False  # in the middle of a rotation
        if _same(newest, self._files[0]):
            newest.close()
            return False
        self._files.append(newest)
        return True


def _open_all(path: Path) -> list[BinaryIO]:
    """Return the open files, oldest first. Opens the newest first, so that a rotation meanwhile hides none."""
    files: list[BinaryIO] = []
    for name in names_of(path):
        with suppress(FileNotFoundError):
            file = name.open("rb")
            if files and _same(file, files[-1]):
                file.close()
            else:
                files.append(file)
    return files[::-1]


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.sameopenfile(one.fileno(), other.fileno())
