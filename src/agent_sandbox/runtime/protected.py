"""What of a project is protected: the rows of the table, put in the places where this project has them."""

import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath

import yaml

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.gitsettings import NotSaidError, Patience, named
from agent_sandbox.runtime.listing import Listing
from agent_sandbox.runtime.repositories import GIT, Kind, places
from agent_sandbox.stack.workspace import Access, Protected

TABLE = data_root() / "templates" / "_shared" / "protected.yaml"
# `init` goes by what it hears: it waits longer than those who only look.
SECONDS_TO_PROTECT = 60.0
NOT_SAID = "git did not say in time what its settings name: what it runs from there could not be protected"
NOT_SAID_HINT = "see what `git config --list` waits for there: a pipe among the files that they include, perhaps"
PINNED = "may be written to, but not moved away and put back with something else in it"

type Table = Mapping[str, tuple[Protected, ...]]


@cache
def load_table(file: Path = TABLE) -> Table:
    """Return the rows by section; a row's path is relative to the places that the section is about."""
    sections = yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    return {section: tuple(Protected(**row) for row in rows) for section, rows in sections.items()}


def find_protected(project: Path) -> tuple[Protected, ...]:
    """Return what is mounted, outer paths first: real files and directories, and what `init` makes.

    Raises UserError where git does not say what it acts on: a mount that was there before would end unnoticed.
    """
    every = list(candidates(project, patience=Patience(SECONDS_TO_PROTECT)))
    if silent := [Problem(where=one.path, what=NOT_SAID, hint=NOT_SAID_HINT) for one in every if one.why == NOT_SAID]:
        raise UserError(silent)
    return with_pins(one for one in every if is_real(project, one.path) or _is_to_be_made(project, one))


def candidates(project: Path, *, patience: Patience | None = None) -> Iterator[Protected]:
    """Yield everything that is there and should be protected, links too, and what `init` makes.

    A repository whose settings git does not tell is one of them as a whole, for the reason `NOT_SAID`.
    """
    for one in _placed(project, load_table(), patience or Patience()):
        if one.path.isprintable() and (one.always or is_there(project / one.path)):
            yield one


def _placed(project: Path, table: Table, patience: Patience) -> Iterator[Protected]:
    listing = Listing(project)
    yield from _at(listing, "", table["workspace"])
    whys = {row.path: row.why for row in table["settings"]}
    for place in places(project):
        # Where git's own directory has no hooks, `init` makes what `git init` would have made. Others are left alone.
        rows = table[place.kind.value] if GIT in Path(place.path).parts else _where_there(table[place.kind.value])
        yield from _at(listing, place.path, rows)
        if place.kind is Kind.POINTER or Path(place.path).name == GIT:
            git = f"{place.path}/{GIT}".lstrip("/") if place.kind is Kind.POINTER else place.path
            try:
                yield from (Protected(path=path, why=whys[setting]) for setting, path in named(project, git, patience))
            except NotSaidError:
                yield Protected(path=git, why=NOT_SAID)


def _at(listing: Listing, place: str, rows: Iterable[Protected]) -> Iterator[Protected]:
    for row in rows:
        plain = f"{place}/{row.path}".lstrip("/")
        for path in listing.matching(place, row.path):
            yield Protected(path=path, why=row.why, always=row.always and path == plain)


def _where_there(rows: Iterable[Protected]) -> Iterator[Protected]:
    return (replace(row, always=False) for row in rows)


def with_pins(found: Iterable[Protected]) -> tuple[Protected, ...]:
    """Return each path once, without those that lie in another one, and with the directories that must stay.

    Pinned are the directories from the first one with a dot on. Not the ones above: nothing is simply moved over the
    edge of a mount, and sources are moved about. Where such a directory is moved, the mount is missed in its place.
    """
    every: dict[str, Protected] = {}
    for one in found:
        every.setdefault(one.path, one)
    kept = {path: one for path, one in every.items() if not any(parent in every for parent in _parents(path))}
    pins = {
        parent: Protected(path=parent, access=Access.PINNED, why=PINNED)
        for path in kept
        for parent in _parents(path)
        if any(part.startswith(".") for part in PurePosixPath(parent).parts)
    }
    return tuple(sorted((kept | pins).values(), key=lambda one: PurePosixPath(one.path).parts))


def _parents(path: str) -> tuple[str, ...]:
    return tuple(str(parent) for parent in PurePosixPath(path).parents if parent.parts)


def is_there(place: Path) -> bool:
    """Say whether there is anything, a link too."""
    try:
        place.lstat()
    except OSError:
        return False
    return True


def _is_to_be_made(project: Path, one: Protected) -> bool:
    parent = str(PurePosixPath(one.path).parent)
    return one.always and not is_there(project / one.path) and (parent == "." or is_real(project, parent))


def is_real(project: Path, path: str) -> bool:
    """Say whether a file or directory is there, without a symbolic link on the way: the engine would follow it."""
    place = project
    for part in Path(path).parts:
        place /= part
        try:
            mode = place.lstat().st_mode
        except OSError:
            return False
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return False
    return True
