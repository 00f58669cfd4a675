"""What a policy was made of: each file that was read for it, and what stood there."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent_sandbox.policyfile.text.reading import MAX_BYTES, read_policy
from agent_sandbox.problems import UserError


class Read(Protocol):
    """How a file of a policy is read: `read_policy`, or a `Reader` that takes note of it."""

    def __call__(self, path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
        """Return what the file holds, or raise UserError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file as it was read, and the sha256 of what it held."""

    path: str
    limit: int
    own_folder: bool
    digest: str

    @property
    def stands(self) -> bool:
        """Whether the same is to be read there now."""
        try:
            content = read_policy(Path(self.path), limit=self.limit, own_folder=self.own_folder)
        except UserError:
            return False
        return _digest(content) == self.digest


class Reader:
    """Reads files, and remembers what it has read.

    A file that changes meanwhile is remembered as both: nothing that was made of it is then ever taken as it stands.
    """

    def __init__(self) -> None:
        self._sources: set[Source] = set()

    def read(self, path: Path, *, limit: int = MAX_BYTES, own_folder: bool = False) -> bytes:
        """Return what the file holds, or raise UserError."""
        content = read_policy(path, limit=limit, own_folder=own_folder)
        where = str(path.absolute())
        self._sources.add(Source(path=where, limit=limit, own_folder=own_folder, digest=_digest(content)))
        return content

    @property
    def sources(self) -> Iterable[Source]:
        """What has been read so far."""
        return sorted(self._sources, key=lambda source: source.path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
