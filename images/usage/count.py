"""Count the tokens in the agents' state: build a home directory from it, then execute ccusage.

The state is read-only, and SQLite cannot open every database in a directory where it cannot write. So databases are
copied into memory, and all else is linked. The agent wrote the state: links in it are left out, and sizes are bounded.
"""

import os
import shutil
import stat
import sys

STATE, HOME = "/state", "/run/home"
PROGRAM = "/opt/usage/ccusage"
DATABASES = (".db", ".sqlite")
# Files beside a database: the write-ahead log, and its index, which SQLite creates again.
JOURNAL, INDEX = "wal", "shm"
# How deep, and among how many entries of a directory, databases are searched.
DEEPEST = 4
MOST_ENTRIES = 1_000
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def gather(state: str, home: str) -> None:
    """Fill a new directory with what is in `state`."""
    os.makedirs(home, exist_ok=True)
    for entry in os.scandir(state):
        path, target = f"{state}/{entry.name}", f"{home}/{entry.name}"
        if entry.is_dir(follow_symlinks=False) and _holds_database(path, DEEPEST):
            gather(path, target)
        elif entry.is_file(follow_symlinks=False) and _is_database(entry.name):
            _copy(path, target)
        elif not (entry.is_symlink() or _is_database(entry.name.removesuffix(f"-{INDEX}"))):
            os.symlink(path, target)


def _is_database(name: str) -> bool:
    return name.removesuffix(f"-{JOURNAL}").endswith(DATABASES)


def _holds_database(folder: str, depth: int) -> bool:
    if not depth:
        return False
    try:
        entries = [entry for entry, _ in zip(os.scandir(folder), range(MOST_ENTRIES), strict=False)]
    except OSError:
        return False
    if any(_is_database(entry.name) for entry in entries if entry.is_file(follow_symlinks=False)):
        return True
    inner = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return any(_holds_database(f"{folder}/{name}", depth - 1) for name in inner)


def _copy(path: str, target: str) -> None:
    """Copy a database; one that does not fit is left out."""
    try:
        handle = os.open(path, REGULAR)
        with os.fdopen(handle, "rb") as source, open(target, "xb") as copy:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                shutil.copyfileobj(source, copy)
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        if os.path.exists(target):
            os.unlink(target)


if __name__ == "__main__":
    gather(STATE, HOME)
    os.execv(PROGRAM, (PROGRAM, *sys.argv[1:]))  # noqa: S606 - no shell is the point
