"""Let one command at a time read, change and write the files of a project that several commands write."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.files import make_folders, problem_of
from agent_sandbox.runtime.host.user_dirs import state_name

# Each command holds it for milliseconds, never while it asks, builds or waits for an engine.
SECONDS = 60.0
STEP = 0.02
CREATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def project_lock(root: Path, state: Path, *, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Hold the lock of the project in this directory; wait for it, and raise UserError if it stays taken.

    The lock is in `state`, the user's state directory: an agent could hold one in the project, and so prevent a deny.
    """
    folder = state / "locks"
    place = folder / f"{state_name(root.resolve())}.lock"
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_folders(state, [folder.name])
        handle = os.open(place, CREATE, 0o600)
        if os.geteuid() == 0:  # after a command under sudo, the user still has to open it
            os.fchown(handle, folder.stat().st_uid, folder.stat().st_gid)
    except OSError as error:
        raise UserError([problem_of(str(place), error)]) from error
    try:
        end = clock() + SECONDS
        while not _taken(handle, place):
            if clock() > end:
                what, hint = "another command is writing this project's files", f"end it: fuser {place} shows it"
                raise UserError([Problem(where=str(root), what=what, hint=hint)])
            time.sleep(STEP)
        yield
    finally:
        os.close(handle)


def _taken(handle: int, place: Path) -> bool:
    """Take the lock if it is free; return whether it is ours."""
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError as error:
        raise UserError([problem_of(str(place), error)]) from error
    return False
