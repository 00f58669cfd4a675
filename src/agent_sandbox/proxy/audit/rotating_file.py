"""A log file of bounded size: `traffic.jsonl` and a few older, rotated files."""

import os
from itertools import pairwise
from pathlib import Path

ROTATE_BYTES = 16 * 1024 * 1024
OLDER = 4


class RotatedFile:
    """Appends to `path`. At `limit` bytes, renames it to `path.1`, that one to `path.2`, and drops the oldest."""

    def __init__(self, path: Path, *, limit: int = ROTATE_BYTES, older: int = OLDER) -> None:
        self._path = path
        self._limit = limit
        self._older = older
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = _opened(path)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises OSError if the disk is full; then no line is written partially."""
        if self._size and self._size + len(data) > self._limit:
            self._rotate()
        try:
            write_all(self._descriptor, data)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _rotate(self) -> None:
        # If creating the new file failed last time, there is no current file, so do not rotate the older ones again.
        names = names_of(self._path, older=self._older) if self._path.exists() else []
        for newer, older in reversed(list(pairwise(names))):
            if newer.exists():
                newer.replace(older)
        # Close the old file last: its descriptor number would soon be reused for a client's connection.
        fresh = _opened(self._path)
        self.close()
        self._descriptor, self._size = fresh, 0


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)


def names_of(path: Path, *, older: int = OLDER) -> list[Path]:
    """Return the paths of a log's files, newest first.

    >>> [str(name) for name in names_of(Path("traffic.jsonl"), older=2)]
    ['traffic.jsonl', 'traffic.jsonl.1', 'traffic.jsonl.2']
    """
    return [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, older + 1))]


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in as many calls as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
