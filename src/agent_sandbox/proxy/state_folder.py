"""The proxy's state directory, checked before anything in it is used: it holds the key of a CA that clients trust."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_sandbox.problems import Problem, UserError

# The directories in it, with their modes; in a private one, other users may not even read a file.
PRIVATE = 0o700
FOLDERS: Mapping[str, int] = {"private": PRIVATE, "secrets": PRIVATE, "log": PRIVATE, "run": PRIVATE, "ca": 0o755}
WRITE, READ = stat.S_IWGRP | stat.S_IWOTH, stat.S_IRGRP | stat.S_IROTH
KEYS = ("private", "secrets")
HINT = "remove it unless you know who made it, then start again"
NO_LINK = "a symbolic link, which could lead to another user's files"


def prepare_state(state: Path) -> None:
    """Create the state directory; raise UserError with each path in it that another user could have prepared."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        problems = [*_faults(state, state.lstat(), others=WRITE, kind=stat.S_IFDIR), *_faults_below(state)]
        if problems:
            raise UserError(problems)
        for name, mode in FOLDERS.items():
            (state / name).mkdir(exist_ok=True)
            (state / name).chmod(mode)
    except OSError as error:
        where = str(error.filename or state)
        raise UserError([Problem(where=where, what=f"cannot be used: {(error.strerror or '').lower()}")]) from error


def _faults_below(state: Path) -> Iterator[Problem]:
    for name in FOLDERS:
        top = state / name
        if not os.path.lexists(top):
            continue
        yield from _faults(top, top.lstat(), others=WRITE, kind=stat.S_IFDIR)
        for folder, folders, files in os.walk(top):  # follows no links
            for one in (*folders, *files):
                path = Path(folder, one)
                found = path.lstat()
                secret = name in KEYS and not stat.S_ISDIR(found.st_mode)
                yield from _faults(path, found, others=WRITE | READ if secret else WRITE)


def _faults(path: Path, found: os.stat_result, *, others: int, kind: int = 0) -> Iterator[Problem]:
    """Yield what is wrong with a path: `others` are the rights that other users must not have."""
    mode, is_file = found.st_mode, stat.S_ISREG(found.st_mode)
    if stat.S_ISLNK(mode):
        yield Problem(where=str(path), what=NO_LINK, hint=HINT)
    elif not (is_file or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)) or (kind and stat.S_IFMT(mode) != kind):
        yield Problem(where=str(path), what=f"not a {'directory' if kind else 'file or directory'}", hint=HINT)
    elif found.st_uid != os.geteuid():
        what = f"belongs to another user: uid {found.st_uid}, not {os.geteuid()}"
        yield Problem(where=str(path), what=what, hint=HINT)
    elif is_file and found.st_nlink > 1:
        yield Problem(where=str(path), what="has another name, a hard link", hint=HINT)
    elif mode & others:
        what = f"other users may {'write' if mode & WRITE else 'read'} it (mode {stat.S_IMODE(mode):04o})"
        yield Problem(where=str(path), what=what, hint=HINT)
