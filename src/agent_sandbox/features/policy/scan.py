"""Look at the files of a project that name hosts or show which packages it uses, within limits."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent_sandbox.detect import is_looked_at
from agent_sandbox.host.files import read_bytes

# Enough for every registry of a large lock file, and fast.
MAX_BYTES = 1 << 20
MAX_FILES = 40
MAX_NAMES = 10_000  # of files at the top of a project
FOLDERS = ("", "gradle/wrapper")


def naming_files(project: Path) -> dict[str, str]:
    """Return the lock and configuration files by path; unreadable ones are skipped."""
    found: dict[str, str] = {}
    for path in sorted(_candidates(project))[:MAX_FILES]:
        try:
            data = read_bytes(project, path, limit=MAX_BYTES)
        except OSError:
            continue
        found[path] = (data or b"").decode(errors="replace")
    return found


def names_at_top(project: Path) -> tuple[str, ...]:
    """Return the printable names of the regular files at the top of a project; no link is followed."""
    try:
        with os.scandir(project) as entries:
            first = islice(entries, MAX_NAMES)
            return tuple(one.name for one in first if one.name.isprintable() and one.is_file(follow_symlinks=False))
    except OSError:
        return ()


def _candidates(project: Path) -> Iterator[str]:
    for folder in FOLDERS:
        try:
            names = [path.name for path in (project / folder).iterdir()]
        except OSError:
            continue
        yield from (f"{folder}/{name}".lstrip("/") for name in names if is_looked_at(name))
