"""Read the files of a project that are reviewed. The agent may have made them, and may change them meanwhile."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from agent_sandbox.features.review.kinds import EXECUTABLE, LINK, Kind, kind_of
from agent_sandbox.host.files import hash_file, read_bytes

# The project's own, which trust is about.
SANDBOX = ".devcontainer"
# Directories that are made from reviewed files, or that are reviewed elsewhere.
NOT_SEARCHED = frozenset(
    (".git", ".hg", ".sl", ".jj", "node_modules", "bower_components", ".venv", "venv", "__pycache__")
) | frozenset((".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", "target", ".gradle", ".terraform"))
MOST_ENTRIES = 200_000
MOST_FILES = 20_000
MOST_DEPTH = 64
# Kept of a file. The rest is only hashed, and of so much in all; beyond that, the time of its last change counts, which
# the agent cannot set.
MOST_BYTES = 1 << 20
MOST_HASHED = 256 << 20
UNREADABLE = "cannot be read: {}\n"
SPECIAL = b"not a regular file: whoever opens it reads what the agent writes into it at that time\n"
ANY_EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class Seen(Struct, frozen=True, kw_only=True):
    """One file: its kind, whether it may be executed, and the SHA-256 of its content. `data` is cut at `MOST_BYTES`.

    `plain` is false for a link, a pipe and a device, for which `data` says what it is.
    """

    path: str
    kind: Kind
    executable: bool
    digest: str
    data: bytes
    plain: bool = True


class Scan(Struct):
    """A walk through a project: `complete` is false after it gave up, `skipped` are directories that it left out."""

    root: Path
    skipped: list[str]
    complete: bool = True
    unhashed: int = MOST_HASHED

    def files(self) -> Iterator[Seen]:
        """Yield the files to review, sorted within each directory."""
        found = 0
        for path, entry in self._entries():
            seen = self._seen(path, entry)
            if seen is None:
                continue
            found += 1
            if found > MOST_FILES:
                self.complete = False
                return
            yield seen

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield every file and link, without following one; directories come after the files beside them."""
        waiting, entries = [""], 0
        while waiting:
            folder = waiting.pop()
            for name in self._names(folder):
                entries += 1
                if entries > MOST_ENTRIES:
                    self.complete = False
                    return
                path = f"{folder}{name}"
                try:
                    found = os.lstat(self.root / path)
                except FileNotFoundError:
                    continue
                except OSError:
                    self.skipped.append(path)
                    continue
                if not stat.S_ISDIR(found.st_mode):
                    yield path, found
                elif path == SANDBOX or name in NOT_SEARCHED or path.count("/") >= MOST_DEPTH:
                    self.skipped.append(path)
                else:
                    waiting.append(f"{path}/")

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / folder))  # noqa: PTH208 - names, without an object for each
        except OSError:
            self.skipped.append(folder.rstrip("/"))
            return []

    def look(self, path: str) -> Seen | None:
        """Return one file as it is now, or None if it is gone or is not reviewed any more."""
        try:
            return self._seen(path, os.lstat(self.root / path))
        except OSError:
            return None

    def _seen(self, path: str, found: os.stat_result) -> Seen | None:
        if stat.S_ISLNK(found.st_mode):
            return self._link(path)
        executable = bool(found.st_mode & ANY_EXECUTE)
        kind = kind_of(path) or (EXECUTABLE if executable else None)
        if kind is None:
            return None
        if not stat.S_ISREG(found.st_mode):
            return _not_plain(path, kind, SPECIAL)
        try:
            data, rest = self._content(self.root, path, found)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _not_plain(path, kind, UNREADABLE.format(error.strerror).encode())
        digest = _digest(data + rest, b"x" if executable else b"-")
        return Seen(path=path, kind=kind, executable=executable, digest=digest, data=data)

    def _content(self, root: Path, path: str, found: os.stat_result) -> tuple[bytes, bytes]:
        """Return how a file begins, and what tells it from a larger one that begins with the same."""
        data = read_bytes(root, path, limit=MOST_BYTES) or b""
        if found.st_size <= MOST_BYTES:
            return data, b""
        self.unhashed -= found.st_size
        if self.unhashed < 0:
            return data, f"{found.st_size} {found.st_ctime_ns}".encode()
        return data, hash_file(root, path, limit=found.st_size)

    def _link(self, path: str) -> Seen | None:
        """Return a link that leads out of the project, to a directory or nowhere, or has the name of a reviewed file.

        What such a name leads to is a part of it, because it may change by another name.
        """
        place = self.root / path
        try:
            target = place.readlink()
        except OSError:
            return None
        kind, root, real = kind_of(path), os.path.realpath(self.root), os.path.realpath(place)
        said = os.fsencode(f"link to {target}\n")
        if not real.startswith(f"{root}/") or not os.path.isfile(real):
            return _not_plain(path, LINK, said)
        if kind is None:
            return None
        try:
            data, rest = self._content(Path(root), real[len(root) + 1 :], Path(real).stat())
        except OSError as error:
            data, rest = UNREADABLE.format(error.strerror).encode(), b""
        return _not_plain(path, kind, said + data, rest)


def _not_plain(path: str, kind: Kind, data: bytes, rest: bytes = b"") -> Seen:
    return Seen(path=path, kind=kind, executable=False, digest=_digest(data + rest, b"*"), data=data, plain=False)


def _digest(data: bytes, mark: bytes) -> str:
    return hashlib.sha256(data + b"\0" + mark).hexdigest()
