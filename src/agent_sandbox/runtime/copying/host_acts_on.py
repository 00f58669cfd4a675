"""Leave files that programs on the host machine act on out of directories that are copied from a sandbox.

The sandbox cannot write these files in the project, because they are protected. A copy of a directory would be the way
around that, so they are only copied by name.
"""

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from agent_sandbox.runtime.git.repositories import GIT
from agent_sandbox.runtime.host.agents import host_reads
from agent_sandbox.runtime.project.root import find_root
from agent_sandbox.runtime.protect.protected import load_table
from agent_sandbox.stack.workspace import Protected

# A directory with a HEAD can be a repository whatever its name. Windows calls `.git` also `git~1`.
OF_REPOSITORY = re.compile(rf"{re.escape(GIT)}|git~[0-9]+|head")
OF_GIT = "git on your machine would run its hooks and programs"
BY_NAME = "; look at it, then copy it by name"


def refusal_below(folder: Path, name: str) -> Callable[[tuple[str, ...]], str]:
    """Return a function that says why an entry of a copy is not written, or nothing.

    The copy gets the name `name` in `folder`, which exists; with ".", only its content goes there. If a copy from above
    leaves `folder` out, or a directory that it is in, nothing is written there.
    """
    whole = Path(os.path.abspath(folder))  # noqa: PTH100 - as typed: no link in it is followed
    root = find_root(None, cwd=whole)
    top = root if root and whole.is_relative_to(root) else Path(whole.anchor)
    above = tuple(map(_plain, whole.relative_to(top).parts))
    before = (*above, *(() if name == "." else (_plain(name),)))
    table = (*load_table()["workspace"], *(Protected(path=row.path, why=row.why) for row in host_reads()))
    rows = [(row.path.casefold().split("/"), row.why, row.anywhere) for row in table]
    into = OF_GIT if _is_in_repository(whole, top, above) else ""
    into = into or next((why for pattern, why, _ in rows if _leads_into(above, pattern)), "")

    def refusal(parts: tuple[str, ...]) -> str:
        names = tuple(map(_plain, parts))
        if into or OF_REPOSITORY.fullmatch(names[-1]):
            return f"{into or OF_GIT}{BY_NAME}"
        way = (*before, *names)
        for pattern, why, anywhere in rows:
            start = len(way) - len(pattern)
            if start >= 0 and (anywhere or start <= len(before)) and _matches(way[start:], pattern):
                return f"{why}{BY_NAME}"
        return ""

    return refusal


def _is_in_repository(whole: Path, top: Path, above: tuple[str, ...]) -> bool:
    """Return whether a directory is git's own, in `.git` or in a bare repository."""
    places = [place for place in (whole, *whole.parents) if place.is_relative_to(top)]
    bare = any(os.path.isfile(place / "HEAD") and os.path.isdir(place / "objects") for place in places)
    return bare or any(OF_REPOSITORY.fullmatch(part) for part in above)


def _leads_into(above: tuple[str, ...], pattern: list[str]) -> bool:
    """Return whether a directory is what the pattern matches, or in it, seen from any directory above it."""
    return any(_matches(above[start : start + len(pattern)], pattern) for start in range(len(above)))


def _plain(name: str) -> str:
    """Return the name that a disk may take this one for: without case, invisible characters, and what Windows cuts."""
    return "".join(filter(str.isprintable, name)).casefold().partition(":")[0].rstrip(" .")


def _matches(names: tuple[str, ...], pattern: list[str]) -> bool:
    return len(names) == len(pattern) and all(map(fnmatchcase, names, pattern))
