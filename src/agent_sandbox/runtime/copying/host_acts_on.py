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


def refusal_below(target: Path) -> Callable[[tuple[str, ...]], str]:
    """Return a function that says why an entry below `target` is not written, or nothing.

    Patterns apply to the path in the copied directory, and to the one in the project that the target is in.
    """
    whole = Path(os.path.abspath(target))  # noqa: PTH100 - as typed: no link in it is followed
    root = find_root(None, cwd=whole.parent)
    above = whole.relative_to(root).parts if root and whole.is_relative_to(root) else None
    table = (*load_table()["workspace"], *(Protected(path=row.path, why=row.why) for row in host_reads()))
    rows = [(row.path.casefold().split("/"), row.why) for row in table]

    def refusal(parts: tuple[str, ...]) -> str:
        names = tuple(map(_plain, parts))
        if OF_REPOSITORY.fullmatch(names[-1]):
            return f"{OF_GIT}{BY_NAME}"
        ways = (names, *(((*map(str.casefold, above), *names),) if above else ()))
        found = next((why for pattern, why in rows if any(_matches(way, pattern) for way in ways)), "")
        return f"{found}{BY_NAME}" if found else ""

    return refusal


def _plain(name: str) -> str:
    """Return the name that a disk may take this one for: without case, invisible characters, and what Windows cuts."""
    return "".join(filter(str.isprintable, name)).casefold().partition(":")[0].rstrip(" .")


def _matches(names: tuple[str, ...], pattern: list[str]) -> bool:
    return len(names) == len(pattern) and all(map(fnmatchcase, names, pattern))
