"""What a repository's settings name within the project: asked of git itself, which knows every form and include."""

import os
from collections.abc import Iterator
from pathlib import Path

from agent_sandbox.runtime.process import capture

SECONDS = 5.0
HOOKS = "hooksPath"
INCLUDE = "include"
ORIGIN = "file:"
UNREADABLE = "no settings that git can read"


def named(project: Path, repository: str) -> Iterator[tuple[str, str]]:
    """Yield (`hooksPath` or `include`, path relative to the project): what lies in the project alone.

    `repository` is the path of a directory, or of a file, called `.git`. Reading settings runs nothing that they name.
    """
    place = project / repository
    for origin, key, value in _settings(place):
        if origin.startswith(ORIGIN):
            yield from _within(project, INCLUDE, origin.removeprefix(ORIGIN), place.parent)
        if key == "core.hookspath":
            yield from _within(project, HOOKS, value, place.parent)


def settings_of(file: Path) -> tuple[str, ...]:
    """Return each setting of one file as `key`, a line end and its value; that it is no file of settings, as one."""
    try:
        # From the root: nothing of the directory that this is called in is looked at.
        said = capture(("git", "config", "--file", str(file), "--list", "-z"), cwd=Path("/"), timeout=SECONDS)
    except OSError:
        return ()  # as below
    return tuple(said.out.split("\0")[:-1]) if said.code == 0 else (UNREADABLE,)


def _settings(place: Path) -> Iterator[tuple[str, str, str]]:
    try:
        said = capture(("git", f"--git-dir={place}", "config", "--list", "--show-origin", "-z"), timeout=SECONDS)
    except OSError:
        return  # where there is no git, nothing acts on its settings
    words = iter(said.out.split("\0"))
    for origin, setting in zip(words, words, strict=False):
        key, _, value = setting.partition("\n")
        yield origin, key, value


def _within(project: Path, kind: str, path: str, base: Path) -> Iterator[tuple[str, str]]:
    if path.startswith("~"):
        return
    relative = os.path.relpath(os.path.normpath(base / path), project)
    if relative != "." and not relative.startswith(".."):
        yield kind, relative
