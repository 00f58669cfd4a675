"""Read a repository's git settings without letting git follow includes: a named pipe would block it."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.host.git.repositories import GIT, target_of, text_of
from agent_sandbox.host.process import TIMED_OUT, Finished, capture

SECONDS = 5.0
# For all repositories of a project together: the agent can create thousands, each with a pipe that blocks git.
SECONDS_IN_ALL = 10.0
HOOKS = "hooksPath"
WORKTREE = "core.worktree"
INCLUDE = "include"
ORIGIN = "file:"
# Since git 2.52 `core.hooksPath` may begin with this, which is no part of the path.
OPTIONAL = ":(optional)"
UNREADABLE = "no settings that git can read"
# Git stops at ten levels of includes; a repository with more files of settings than this is not read.
MAX_INCLUDES = 100
# The repository of the current directory is not the one in question.
NOWHERE: Mapping[str, str] = {"GIT_DIR": os.devnull}
# Git's names are bytes, so invalid UTF-8 must survive.
LOSSLESS = "surrogateescape"
ROOT = Path("/")


class NotSaidError(Exception):
    """Git did not report a repository's settings in time: something in them blocks it."""


class Patience:
    """A time budget for git, shared by all questions of one search."""

    def __init__(self, seconds: float = SECONDS_IN_ALL, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def seconds(self) -> float:
        """The seconds left for the next question."""
        return min(SECONDS, self._end - self._clock())


class Setting(Struct, frozen=True, kw_only=True):
    """One setting: `key` as git prints it, with section and name in lower case."""

    file: Path
    key: str
    value: str

    @property
    def is_include(self) -> bool:
        """Whether it includes another file, conditionally or not."""
        return self.key == "include.path" or (self.key.startswith("includeif.") and self.key.endswith(".path"))

    def path(self, base: Path) -> Path:
        """Return the value as a path; git resolves it relative to `base`."""
        return base / os.path.expanduser(self.value)  # noqa: PTH111 - raises nothing for a user who is not there

    @property
    def always(self) -> "Setting":
        """The same path without what makes it optional."""
        return replace(self, value=self.value.removeprefix(OPTIONAL))


class Settings:
    """The settings of a project's repositories, each read once; a NotSaidError is cached too."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._known: dict[Path, tuple[Setting, ...] | None] = {}
        self._included: dict[Path, tuple[Setting, ...]] = {}
        self._of_all: tuple[Setting, ...] | None = None

    def of(self, repository: Path) -> tuple[Setting, ...]:
        """Return all settings of a repository, including those of every included file, whatever its condition.

        `repository` is a directory, or a `.git` file that leads to one. Reading settings runs no program.
        """
        place = _place(repository)
        if place not in self._known:
            self._known[place] = None
            self._known[place] = tuple(self._read(place))
        known = self._known[place]
        if known is None:
            raise NotSaidError
        return known

    def give_up(self, repository: Path) -> None:
        """Raise NotSaidError for this repository from now on."""
        self._known[_place(repository)] = None

    def ask(self, *words: str, environment: Mapping[str, str] = NOWHERE) -> Finished:
        """Run git in `/`, where it ignores the current directory."""
        seconds = self._patience.seconds
        if seconds <= 0:
            raise NotSaidError
        argv = ("git", *words)
        said = capture(argv, cwd=ROOT, timeout=seconds, environment=environment, errors=LOSSLESS)
        if said.code == TIMED_OUT:
            raise NotSaidError
        return said

    def in_file(self, file: Path) -> tuple[Setting, ...]:
        """Return the settings of one file, or none if git cannot read it. A pipe is not opened."""
        if not is_regular(file):
            return ()
        said = self._try("config", "--file", str(file), "--no-includes", "--list", "-z")
        return tuple(_setting(file, text) for text in said.split("\0")[:-1])

    def _try(self, *words: str) -> str:
        try:
            return self.ask(*words).out
        except OSError:
            return ""  # without git, nothing uses its settings

    def _read(self, place: Path) -> Iterator[Setting]:
        found = [*self._shared(), *(setting for file in _files(place) for setting in self._include(file))]
        seen: set[Path] = set()
        while found:
            setting = found.pop(0)
            yield setting
            if setting.is_include and setting.value:
                target = setting.path(setting.file.parent)
                if target not in seen:
                    seen.add(target)
                    found += self._include(target, number=len(seen))

    def _shared(self) -> tuple[Setting, ...]:
        """Return the settings of the user and of the machine."""
        if self._of_all is None:
            words = iter(self._try("config", "--no-includes", "--list", "--show-origin", "-z").split("\0"))
            self._of_all = tuple(
                _setting(Path(origin.removeprefix(ORIGIN)), text)
                for origin, text in zip(words, words, strict=False)
                if origin.startswith(ORIGIN)
            )
        return self._of_all

    def _include(self, file: Path, *, number: int = 0) -> tuple[Setting, ...]:
        """Return the settings of a file; raise NotSaidError if git would block on it."""
        if number > MAX_INCLUDES or _keeps_waiting(file):
            raise NotSaidError
        if file not in self._included:
            self._included[file] = self.in_file(file)
        return self._included[file]


def named(project: Path, repository: Path, top: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (`hooksPath` or `include`, path relative to the project) for paths in the project.

    `top` is where git finds the repository. Raises `NotSaidError`.
    """
    found = settings.of(repository)
    # A relative `hooksPath` is below the directory where git runs the hook: that of the files, which the settings may
    # put elsewhere, or the repository's own for what a push to it runs.
    bases = (top, repository, *(setting.path(repository) for setting in found if setting.key == WORKTREE))
    paths: dict[tuple[str, Path], None] = {}
    for setting in found:
        # A file of the user's or the system's settings may also be in the project.
        paths[INCLUDE, setting.file] = None
        if setting.value and setting.is_include:
            paths[INCLUDE, setting.path(setting.file.parent)] = None
        if setting.value and setting.key == "core.hookspath":
            places = (spelt.path(base) for spelt in (setting, setting.always) for base in bases)
            # Git itself has to write a repository: one that `.` names can't be read-only.
            paths |= {(HOOKS, place): None for place in places if not _is_around(repository, place)}
    for kind, path in paths:
        yield from _within(project, kind, path)


def settings_of(file: Path) -> tuple[str, ...]:
    """Return each setting of one file as `key`, a line end and its value; for an unreadable file, one such marker."""
    return _listed(str(file))


def settings_in(text: bytes) -> tuple[str, ...]:
    """Return the settings of a file with this content, as `settings_of` does."""
    return _listed("-", stdin=text)


def _listed(file: str, *, stdin: bytes = b"") -> tuple[str, ...]:
    argv = ("git", "config", "--file", file, "--no-includes", "--list", "-z")
    try:
        # From `/`: nothing in the current directory is read.
        said = capture(argv, cwd=ROOT, timeout=SECONDS, stdin=stdin)
    except OSError:
        return ()  # without git, nothing uses its settings
    return tuple(said.out.split("\0")[:-1]) if said.code == 0 else (UNREADABLE,)


def _place(repository: Path) -> Path:
    """Return the directory of a repository, or of the one that a `.git` file leads to."""
    target = None if os.path.isdir(repository) else target_of(repository)
    return Path(os.path.realpath(target or repository))


def _files(repository: Path) -> Iterator[Path]:
    """Yield the files that hold the settings of a repository."""
    yield Path(os.path.realpath(repository / text_of(repository / "commondir"))) / "config"
    yield repository / "config.worktree"


def is_regular(file: Path) -> bool:
    """Return whether this is a regular file or a link to one; opening a pipe would block."""
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False


def _keeps_waiting(file: Path) -> bool:
    """Return whether opening this could block: it is neither a file nor a directory."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _setting(file: Path, text: str) -> Setting:
    key, _, value = text.partition("\n")
    return Setting(file=file, key=key, value=value)


def _is_around(repository: Path, place: Path) -> bool:
    return repository.name == GIT and repository.is_relative_to(os.path.normpath(place))


def _within(project: Path, kind: str, path: Path) -> Iterator[tuple[str, str]]:
    # Behind a link, `..` leads out of the link's target: where that is, the spelling does not say.
    for place in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
        relative = os.path.relpath(place, project)
        if relative != "." and not relative.startswith("../") and relative != "..":
            yield kind, relative
