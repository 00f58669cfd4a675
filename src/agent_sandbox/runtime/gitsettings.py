"""What a repository's settings name within the project: asked of git itself, which knows every form and include."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_sandbox.runtime.process import TIMED_OUT, capture

SECONDS = 5.0
# For all repositories of a project together: an agent can make thousands, and have git wait at each, by a pipe.
SECONDS_IN_ALL = 10.0
HOOKS = "hooksPath"
INCLUDE = "include"
ORIGIN = "file:"
UNREADABLE = "no settings that git can read"


class NotSaidError(Exception):
    """Git did not say in time what a repository's settings name: something in them keeps it waiting."""


class Patience:
    """How long git is waited for, whatever it is asked, by the one who holds this."""

    def __init__(self, seconds: float = SECONDS_IN_ALL, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def seconds(self) -> float:
        """What is left for the next question."""
        return min(SECONDS, self._end - self._clock())


def named(project: Path, repository: str, patience: Patience) -> Iterator[tuple[str, str]]:
    """Yield (`hooksPath` or `include`, path relative to the project): what lies in the project alone.

    `repository` is the path of a directory, or of a file, called `.git`. Reading settings runs nothing that they name.
    Raises `NotSaidError`.
    """
    place = project / repository
    for origin, key, value in _settings(place, patience.seconds):
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


def _settings(place: Path, seconds: float) -> Iterator[tuple[str, str, str]]:
    if seconds <= 0:
        raise NotSaidError
    try:
        said = capture(("git", f"--git-dir={place}", "config", "--list", "--show-origin", "-z"), timeout=seconds)
    except OSError:
        return  # where there is no git, nothing acts on its settings
    if said.code == TIMED_OUT:
        raise NotSaidError
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
