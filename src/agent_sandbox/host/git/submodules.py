"""List what git knows by name in a repository: its submodules, with their work trees and repositories."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent_sandbox.host.git.ask import NO_PROGRAMS, NO_WORK_TREE
from agent_sandbox.host.git.git_config import WORKTREE, NotSaidError, Settings, is_regular
from agent_sandbox.host.git.repositories import MODULES, NamesOf

FILE = ".gitmodules"
MAX_FILE = 1 << 20
MAX_INDEX = 128 << 20
MAX_NAMES = 10_000
GITLINK = "160000 "
PREFIX = "submodule."


def names_by(settings: Settings) -> NamesOf:
    """Return a function that lists the directories that git knows by name.

    It yields nothing if git does not answer; `settings` then raises NotSaidError for that repository.
    """

    def names_of(repository: Path, top: Path | None) -> Iterator[Path]:
        try:
            yield from _of_settings(repository, settings)
            if top is not None:
                yield from _of_gitmodules(repository, top, settings)
                yield from islice(_gitlinks(repository, top, settings), MAX_NAMES)
        except NotSaidError:
            settings.give_up(repository)

    return names_of


def _of_settings(repository: Path, settings: Settings) -> Iterator[Path]:
    for setting in settings.of(repository):
        if setting.key == WORKTREE:
            yield setting.path(repository)
        elif setting.key.startswith(PREFIX) and setting.key.count(".") > 1:
            yield repository / MODULES / setting.key.removeprefix(PREFIX).rpartition(".")[0]


def _of_gitmodules(repository: Path, top: Path, settings: Settings) -> Iterator[Path]:
    file = top / FILE
    if not os.path.islink(file) and _size(file) <= MAX_FILE:
        for setting in islice(settings.in_file(file), MAX_NAMES):
            name, _, key = setting.key.removeprefix(PREFIX).rpartition(".")
            if key == "path":
                yield repository / MODULES / name
                yield top / setting.value


def _gitlinks(repository: Path, top: Path, settings: Settings) -> Iterator[Path]:
    """Yield the submodules in the index, which git prints without reading other files."""
    size = _size(repository / "index")
    if size > MAX_INDEX:
        raise NotSaidError
    if size and is_regular(repository / "index"):
        words = (*NO_PROGRAMS, f"--git-dir={repository}", "ls-files", "--stage", "-z")
        try:
            said = settings.ask(*words, environment=NO_WORK_TREE)
        except OSError:
            return
        for entry in said.out.split("\0"):
            if entry.startswith(GITLINK):
                yield top / entry.partition("\t")[2]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
