"""The bytes of a policy file: a regular file of bounded size, never followed elsewhere, never waited for."""

import errno
import os
import stat
from contextlib import ExitStack
from pathlib import Path

from agent_sandbox.problems import Problem, UserError

MIB = 1024 * 1024
MAX_BYTES = 4 * MIB
# A FIFO would block the open, a link could lead to any file of the reader's.
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
POLICY_NAME = "policy.yaml"  # as `init` writes it
A_LINK = "is a symbolic link"


def read_policy(path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
    """Return what the file holds, or raise UserError with the one thing that stands in the way.

    `own_folder` refuses a link in place of the folder, too: who looks at a project for trust follows none.
    """
    descriptor = _open(path, own_folder=own_folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _problem(path, "is no regular file", "a policy is a text file")
        # One byte more than is taken: a file that grows meanwhile is noticed.
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit:
        hint = "put long lists of hosts into a `domains_file`" if limit == MAX_BYTES else ""
        raise _problem(path, f"is longer than {limit // MIB} MiB", hint)
    return content


def _open(path: Path, *, own_folder: bool) -> int:
    with ExitStack() as stack:
        try:
            if not own_folder:
                return os.open(path, FLAGS)
            folder = os.open(path.parent, FOLDER)
            stack.callback(os.close, folder)
            return os.open(path.name, FLAGS, dir_fd=folder)
        except FileNotFoundError as error:
            hint = "`agent-sandbox init AGENT` writes one" if path.name == POLICY_NAME else ""
            raise _problem(path, "no such file", hint) from error
        except PermissionError as error:
            # No more is asked of what is closed: that would be refused as well.
            hint = "`agent-sandbox doctor` says what is closed" if path.name == POLICY_NAME else ""
            raise _problem(path, f"cannot be read: {error.strerror}", hint) from error
        except OSError as error:
            if own_folder and os.path.islink(path.parent):
                raise _problem(path.parent, A_LINK, "put the folder itself there") from error
            if error.errno == errno.ELOOP:
                raise _problem(path, A_LINK, "put the file itself there") from error
            raise _problem(path, f"cannot be read: {error.strerror}") from error


def _problem(path: Path, what: str, hint: str = "") -> UserError:
    return UserError([Problem(where=str(path), what=what, hint=hint)])
