"""PATH without directories that an agent can write, so that no command runs a program of a project."""

import os
from collections.abc import Iterator, Mapping

# A directory that contains this one is a project, so an agent may write there.
DEVCONTAINER = ".devcontainer"
OUTSIDE = "set XDG_CONFIG_HOME to a directory outside all projects"


def program_path(environ: Mapping[str, str], *, project: os.PathLike[str] | None = None) -> str:
    """Return PATH without relative directories, and those in this `project` or in one with a stack.

    An active virtual environment or `node_modules/.bin` is such a directory. The result is never empty, because an
    empty PATH means the current directory.
    """
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    kept = (one for one in folders if one.startswith(os.sep) and not in_project(one, project))
    return os.pathsep.join(kept) or os.defpath


def in_project(path: str | os.PathLike[str], project: os.PathLike[str] | None = None) -> bool:
    """Return whether a path, as written or with its links resolved, is in this project or one with a stack."""
    try:
        above = {parent for way in _ways(path) for parent in _with_parents(way)}
        roots = set(_ways(project)) if project else set()
        return not roots.isdisjoint(above) or any(os.path.lexists(f"{one}/{DEVCONTAINER}") for one in above)
    except (OSError, ValueError):  # unreachable, or not a path
        return True


def _ways(path: str | os.PathLike[str]) -> tuple[str, str]:
    return os.path.normpath(path), os.path.realpath(path)


def _with_parents(path: str) -> Iterator[str]:
    yield path
    while (above := os.path.dirname(path)) != path:  # noqa: PTH120 - pathlib takes ten times as long
        path = above
        yield path
