"""Remember for `status` and `doctor` whether the last message to the webhook failed, and let one process send."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, to_builtins

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.host.files import write_all
from agent_sandbox.host.user_dirs import state_file
from agent_sandbox.printable import printable
from agent_sandbox.problems import UserError

FOLDER = "webhook"
LONGEST = 300
LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Failure(Struct, frozen=True, kw_only=True):
    """Why the last message did not arrive, and when that was, in UTC."""

    why: str
    time: str


def last_failure(root: Path, environ: Mapping[str, str]) -> Failure | None:
    """Return the failure of the last message about this project; None if it arrived, or there was none."""
    try:
        found = read_json(state_file(FOLDER, root, environ).read_text("utf-8"))
    except (OSError, ValueError, NotJsonError):
        return None
    match found:
        case {"why": str(why), "time": str(time)}:
            return Failure(why=printable(why)[:LONGEST], time=time)
    return None


def save_failure(root: Path, failure: Failure, environ: Mapping[str, str]) -> None:
    """Store a failure; where that is not possible, nothing reports it."""
    place = _place(root, environ)
    with suppress(UserError):
        write_all(place.parent, {place.name: json.dumps({"root": str(root.absolute()), **to_builtins(failure)})})


def forget_failure(root: Path, environ: Mapping[str, str]) -> None:
    """Remove a failure: a message has arrived since."""
    with suppress(OSError):
        state_file(FOLDER, root, environ).unlink()


class SenderLock:
    """Makes one process send the messages of a project, although several show its questions."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root, self._environ = root, environ
        self._handle: int | None = None

    def take(self) -> bool:
        """Return whether this process is the one that sends. It stays that until it ends."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(_place(self._root, self._environ).with_suffix(".lock"), LOCK, 0o600)
        except OSError:
            return True  # twice is better than never
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError:
            pass  # a file system without locks
        self._handle = handle
        return True

    def release(self) -> None:
        """Let another process send."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _place(root: Path, environ: Mapping[str, str]) -> Path:
    place = state_file(FOLDER, root, environ)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place
