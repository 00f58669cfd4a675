"""The policy cache: a private directory. A file that is damaged, or not written by this user, counts as absent."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from agent_sandbox.atomic_file import replace_file

MOST_FILES = 32
MAX_BYTES = 64 * 1024 * 1024
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe returns at once; the file type is checked afterwards.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OF_OTHERS = 0o077


class _ForeignError(OSError):
    """Another user could have written this file."""


class CacheDir(Struct, frozen=True, kw_only=True):
    """A cache directory. Errors are never reported: the content can be computed again."""

    folder: Path

    def get(self, name: str) -> bytes | None:
        """Return the content stored under this name, or None if it is missing, damaged or another user's."""
        with suppress(OSError), _opened(self.folder) as folder:
            handle = os.open(name, FILE, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                _require_own(handle, stat.S_IFREG)
                digest, content = file.read(65), file.read(MAX_BYTES)
            return content if digest == _heading(content) else None
        return None

    def put(self, name: str, content: bytes) -> None:
        """Store the content under this name, and delete the oldest files above the limit."""
        if len(content) >= MAX_BYTES:
            return
        with suppress(OSError):
            _make(self.folder)
            with _opened(self.folder) as folder:
                replace_file(folder, name, _heading(content) + content, durable=False)
                _make_room(folder)


def _heading(content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()}\n".encode()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    folder = os.open(path, FOLDER)
    try:
        _require_own(folder, stat.S_IFDIR)
        yield folder
    finally:
        os.close(folder)


def _require_own(handle: int, kind: int) -> None:
    found = os.fstat(handle)
    if stat.S_IFMT(found.st_mode) != kind or found.st_uid != os.geteuid() or found.st_mode & OF_OTHERS:
        raise _ForeignError


def _make(folder: Path) -> None:
    """Create the directory, only below one that this user owns: root leaves no files in a user's home."""
    if folder.exists():
        return
    if next(above for above in folder.parents if above.exists()).stat().st_uid != os.geteuid():
        raise _ForeignError
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _make_room(folder: int) -> None:
    oldest_first = sorted(
        os.listdir(folder), key=lambda name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    )
    for name in oldest_first[:-MOST_FILES]:
        os.unlink(name, dir_fd=folder)
