"""List the repositories that a project's own git settings name: its remotes and its initialised submodules."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from agent_sandbox.host.git.git_config import settings_of
from agent_sandbox.host.git.repositories import GIT
from agent_sandbox.host.git.worktree import NoGit, Outside, repository_outside

# A part of a path that means the same to every server and in every policy.
SEGMENT = r"[A-Za-z0-9_.][A-Za-z0-9_.-]*"
REPOSITORY = rf"(?P<path>{SEGMENT}(?:/{SEGMENT})+)/?"
HOST = r"(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)"
ADDRESSES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"https://(?:[\w.~:%-]*@)?{HOST}(?::443)?/{REPOSITORY}",
        rf"ssh://(?:[\w.-]+@)?{HOST}(?::[0-9]+)?/{REPOSITORY}",
        rf"(?:[\w.-]+@)?{HOST}:/?{REPOSITORY}",
    )
)
LONGEST = 500
REMOTE, SUBMODULE = "remote", "submodule"
PUSH_DEFAULT = "remote.pushdefault"
# Where git pushes if the settings name no other remote.
ORIGIN = "origin"


class Address(NamedTuple):
    """A repository on a server: the host in lower case, and the path without `.git`."""

    host: str
    path: str


class Named(Struct, frozen=True, kw_only=True):
    """A repository that the settings name: `where` they do, and whether a plain `git push` goes there."""

    address: Address
    where: str
    pushed: bool


def parse_address(text: str) -> Address | None:
    """Return the repository of an https or ssh address, or None for any other and for an unusual spelling.

    >>> parse_address("git@GitHub.com:o/r.git"), parse_address("https://github.com/o/../r")
    (Address(host='github.com', path='o/r'), None)
    """
    found = next((match for one in ADDRESSES if (match := one.fullmatch(text))), None) if len(text) <= LONGEST else None
    path = found["path"].removesuffix(".git") if found else ""
    return Address(found["host"].lower(), path) if found and not {"", ".", ".."} & {*path.split("/")} else None


def named_repositories(project: Path) -> tuple[Named, ...]:
    """Return the repositories that the project's git settings name, each once, the one that is pushed to first.

    Only the repository's own settings count: no file that they include, and not `.gitmodules`, which comes with the
    repository's content.
    """
    config = _config(project)
    settings = tuple(_pairs(settings_of(config))) if config else ()
    found: dict[Address, Named] = {}
    for one in sorted(_named(settings), key=lambda one: not one.pushed):
        found.setdefault(one.address, one)
    return tuple(found.values())


def _config(project: Path) -> Path | None:
    outside = repository_outside(project)
    if isinstance(outside, NoGit):
        return None
    place = outside.common if isinstance(outside, Outside) else project / GIT
    config = place / "config"
    return config if config.is_file() and not os.path.islink(config) else None


def _pairs(settings: Sequence[str]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        key, _, value = setting.partition("\n")
        yield key, value


def _named(settings: Sequence[tuple[str, str]]) -> Iterator[Named]:
    remotes = list(dict.fromkeys(_name(key) for key, _ in settings if key.startswith(f"{REMOTE}.") and _name(key)))
    chosen = next((value for key, value in reversed(settings) if key == PUSH_DEFAULT), ORIGIN)
    pushed_to = chosen if chosen in remotes or len(remotes) != 1 else remotes[0]
    pushes = {_name(key) for key, _ in settings if key.endswith(".pushurl")}
    for key, value in settings:
        kind, name, last = key.partition(".")[0], _name(key), key.rpartition(".")[2]
        address = parse_address(value)
        if address is None or not name or not name.isprintable():
            continue
        if kind == REMOTE and last in {"url", "pushurl"}:
            is_push = last == "pushurl" or name not in pushes
            yield Named(address=address, where=f"remote {name}", pushed=name == pushed_to and is_push)
        elif kind == SUBMODULE and last == "url":
            yield Named(address=address, where=f"submodule {name}", pushed=False)


def _name(key: str) -> str:
    """Return the middle of `remote.NAME.url`, which may contain dots, or an empty string."""
    return key.partition(".")[2].rpartition(".")[0]
