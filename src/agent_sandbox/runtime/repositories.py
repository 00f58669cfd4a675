"""Every place in a project that git on the host would take for a repository, found within bounds."""

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

# A tree of sources has some hundred directories. What lies deeper in a large one is looked at last, or not at all.
MAX_FOLDERS = 4000
GIT = ".git"
# git spreads its objects over directories of these names, and nothing else of interest has one.
OBJECTS = re.compile("[0-9a-f]{2}")


class Kind(StrEnum):
    """What a place is to git."""

    REPOSITORY = "repository"
    WORKTREE = "worktree"  # where a repository keeps what is one worktree's own
    POINTER = "pointer"  # a directory whose `.git` is a file, or a link, that leads to a repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A directory, relative to the project's root."""

    kind: Kind
    path: str


def places(project: Path, *, limit: int = MAX_FOLDERS) -> Iterator[Place]:
    """Yield the places; no link is followed. `limit` holds for the files of the project, and again for git's own."""
    files, gits = deque([""]), deque[str]()
    for waiting in (files, gits):
        for _ in range(limit):
            if not waiting:
                break
            path = waiting.popleft()
            folders, others = _entries(project / path)
            for inner in (f"{path}/{name}".lstrip("/") for name in sorted(folders)):
                (gits if GIT in Path(inner).parts else files).append(inner)
            kind = _kind({*folders, *others})
            if kind is not None:
                yield Place(kind=kind, path=path)
            if GIT in others:
                yield Place(kind=Kind.POINTER, path=path)


def _kind(names: set[str]) -> Kind | None:
    """Return what git makes of a directory with these names in it."""
    if "HEAD" not in names:
        return None
    if {"objects", "refs"} <= names:
        return Kind.REPOSITORY
    return Kind.WORKTREE if "commondir" in names else None


def _entries(folder: Path) -> tuple[set[str], set[str]]:
    """Return the names of directories and of everything else."""
    folders: set[str] = set()
    others: set[str] = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not OBJECTS.fullmatch(entry.name):
                    (folders if entry.is_dir(follow_symlinks=False) else others).add(entry.name)
    except OSError:
        pass  # what we may not read, git of the same user may not either
    return folders, others
