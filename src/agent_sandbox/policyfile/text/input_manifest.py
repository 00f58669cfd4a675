"""A manifest of the files that a policy was loaded from, with a digest of each."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from agent_sandbox.policyfile.text.reading import MAX_BYTES, read_policy
from agent_sandbox.problems import UserError


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
