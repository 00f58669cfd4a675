"""Read the bytes of a policy file (a regular file of bounded size, no link), and record what a policy was made of."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from agent_sandbox.problems import Problem, UserError

MIB = 1024 * 1024
MAX_BYTES = 4 * MIB
# A FIFO would block the open, and a link could lead to any file that the user can read.
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
POLICY_NAME = "policy.yaml"  # as `init` writes it
A_LINK = "symbolic link"


def read_policy(path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
    """Return the content of the file, or raise UserError.

    `own_folder` also rejects a link in place of the directory: no link is followed in a project before it is trusted.
    """
    descriptor = _open(path, own_folder=own_folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _problem(path, "not a regular file", "a policy is a text file")
        # One byte more than the limit, so that a file that grows meanwhile is noticed.
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(content) > limit:
        hint = "put long host lists into a `domains_file`" if limit == MAX_BYTES else ""
        raise _problem(path, f"longer than {limit // MIB} MiB", hint)
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
            # No further checks: they would fail as well.
            hint = "`agent-sandbox doctor` shows the permissions" if path.name == POLICY_NAME else ""
            raise _problem(path, f"cannot be read: {error.strerror}", hint) from error
        except OSError as error:
            if own_folder and os.path.islink(path.parent):
                raise _problem(path.parent, A_LINK, "replace it with the directory itself") from error
            if error.errno == errno.ELOOP:
                raise _problem(path, A_LINK, "replace it with the file itself") from error
            raise _problem(path, f"cannot be read: {error.strerror}") from error


def _problem(path: Path, what: str, hint: str = "") -> UserError:
    return UserError([Problem(where=str(path), what=what, hint=hint)])


class Read(Protocol):
    """The type of a function that reads a file of a policy: `read_policy`, or the method of a `Reader`."""

    def __call__(self, path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
        """Return the content of the file, or raise UserError."""


class Source(Struct, frozen=True, kw_only=True):
    """A file that was read, with the SHA-256 digest of its content."""

    path: str
    limit: int
    own_folder: bool
    digest: str

    @property
    def is_unchanged(self) -> bool:
        """Whether the file still has the same content."""
        try:
            content = read_policy(Path(self.path), limit=self.limit, own_folder=self.own_folder)
        except UserError:
            return False
        return _digest(content) == self.digest


class Reader:
    """Reads files and records them.

    A file that changes between two reads is recorded twice, so a policy loaded from it never counts as unchanged.
    """

    def __init__(self) -> None:
        self._sources: set[Source] = set()

    def read(self, path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
        """Return the content of the file, or raise UserError."""
        content = read_policy(path, limit=limit, own_folder=own_folder)
        where = str(path.absolute())
        self._sources.add(Source(path=where, limit=limit, own_folder=own_folder, digest=_digest(content)))
        return content

    @property
    def sources(self) -> Iterable[Source]:
        """The files that were read so far, by path."""
        return sorted(self._sources, key=lambda source: source.path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
