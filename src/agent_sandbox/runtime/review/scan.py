"""Read the files of a project that are reviewed. The agent may have made them, and may change them meanwhile."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.runtime.host.files import read_bytes
from agent_sandbox.runtime.review.kinds import EXECUTABLE, LINK, Kind, kind_of

# Directories that are made from reviewed files, or that are reviewed elsewhere (`.devcontainer` by trust).
NOT_SEARCHED = frozenset(
    (".git", ".hg", ".sl", ".jj", ".devcontainer", "node_modules", "bower_components", ".venv", "venv", "__pycache__")
) | frozenset((".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", "target", ".gradle", ".terraform"))
MOST_ENTRIES = 200_000
MOST_FILES = 20_000
# Of a file; the rest counts by its size only.
MOST_BYTES = 1 << 20
ANY_EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One file: its kind, whether it may be executed, and the SHA-256 of its content. `data` is cut at `MOST_BYTES`."""

    path: str
    kind: Kind
    executable: bool
    digest: str
    data: bytes


@dataclass(slots=True)
class Scan:
    """A walk through a project: `complete` is false after it gave up, `skipped` are directories that it left out."""

    root: Path
    skipped: list[str]
    complete: bool = True

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
                except OSError:
                    continue
                if not stat.S_ISDIR(found.st_mode):
                    yield path, found
                elif name.casefold() in NOT_SEARCHED:
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
        if kind is None or not stat.S_ISREG(found.st_mode):
            return None
        try:
            data = read_bytes(self.root, path, limit=MOST_BYTES)
        except OSError as error:
            data = f"cannot be read: {error.strerror}\n".encode()
        if data is None:
            return None
        rest = b"" if found.st_size <= MOST_BYTES else str(found.st_size).encode()
        return Seen(path=path, kind=kind, executable=executable, digest=_digest(data + rest, executable), data=data)

    def _link(self, path: str) -> Seen | None:
        """Return a link that leads out of the project or nowhere, or that has the name of a reviewed file."""
        place = self.root / path
        try:
            target = place.readlink()
        except OSError:
            return None
        kind = kind_of(path)
        if not os.path.realpath(place).startswith(f"{os.path.realpath(self.root)}/") or not os.path.exists(place):
            kind = LINK
        if kind is None:
            return None
        data = os.fsencode(f"link to {target}\n")
        return Seen(path=path, kind=kind, executable=False, digest=_digest(data, executable=False), data=data)


def _digest(data: bytes, executable: bool) -> str:  # noqa: FBT001 - a part of what is hashed
    return hashlib.sha256(data + (b"\0x" if executable else b"\0-")).hexdigest()
