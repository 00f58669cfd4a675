"""Find the paths of a project that match a pattern, as they are spelt on disk."""

import os
from bisect import bisect_left
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from agent_sandbox.host.git.repositories import GIT
from agent_sandbox.problems import Problem, UserError

HINT = "`ls -ld` shows who may read it; `chmod u+rwx` gives you access"


class Listing:
    """A project's directories, each read at most once; matching ignores case.

    macOS and Windows open `Lefthook.yml` as `lefthook.yml`, and a name does not say what disk it is on: any case
    matches. A `*` matches any part of one name, but not `.git`, which has rows of its own.
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        self._read: dict[str, list[tuple[str, str]]] = {}

    def matching(self, folder: str, pattern: str) -> Iterator[str]:
        """Yield the paths below `folder` that match, relative to the project.

        A pattern without `*` is also yielded where nothing matches. A directory that cannot be listed is yielded
        itself, because its content is unknown. Raise UserError if it is the project.
        """
        found = list(self._below(folder, pattern.split("/")))
        plain = _join(folder, pattern)
        # On a case-insensitive disk, `plain` may exist in another spelling. One file gets one mount.
        if "*" not in pattern and not (found and os.path.lexists(self._project / plain)):
            yield plain
        yield from found

    def _below(self, folder: str, parts: list[str]) -> Iterator[str]:
        try:
            names = self._names(folder)
        except OSError as error:
            if not folder:
                what = f"cannot be listed: {(error.strerror or str(error)).lower()}"
                raise UserError([Problem(where=str(self._project), what=what, hint=HINT)]) from error
            yield folder
            return
        for path in (_join(folder, name) for name in _select(names, parts[0].casefold())):
            if parts[1:]:
                yield from self._below(path, parts[1:])
            else:
                yield path

    def _names(self, folder: str) -> list[tuple[str, str]]:
        """Return the names in a directory by their case-folded form, sorted."""
        if folder not in self._read:
            try:
                names = os.listdir(self._project / folder)  # noqa: PTH208 - names, without an object for each
            except (FileNotFoundError, NotADirectoryError):
                names = []
            self._read[folder] = sorted((name.casefold(), name) for name in names)
        return self._read[folder]


def ignores_case(folder: Path, name: str) -> bool:
    """Return whether the file system at `folder` ignores case."""
    return os.path.lexists(folder / name.upper()) and name.upper() not in os.listdir(folder)  # noqa: PTH208 - as above


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}".lstrip("/")


def _select(names: list[tuple[str, str]], wanted: str) -> Iterator[str]:
    prefix = wanted.partition("*")[0]
    for index in range(bisect_left(names, (prefix,)), len(names)):
        folded, name = names[index]
        if not folded.startswith(prefix):
            return
        if folded == wanted or ("*" in wanted and folded != GIT and fnmatchcase(folded, wanted)):
            yield name
