"""Find the paths of a project to protect, from the table of patterns."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.features.protect.listing import Listing
from agent_sandbox.host.agents import host_reads
from agent_sandbox.host.files import is_real
from agent_sandbox.host.git.git_config import NotSaidError, Patience, Settings, named
from agent_sandbox.host.git.repositories import GIT, WORKTREES, Found, Kind, Place, search, target_of
from agent_sandbox.host.git.submodules import names_by
from agent_sandbox.host.git.worktree import Outside
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root
from agent_sandbox.stack.recorded import Access
from agent_sandbox.stack.workspace import Protected

TABLE = data_root() / "templates" / "_shared" / "protected.yaml"
# `init` waits longer for git than commands that only look.
SECONDS_TO_PROTECT = 60.0
NOT_SAID = "git did not report its settings in time, so the programs that they name could not be protected"
NOT_SAID_HINT = "find out what `git config --list` waits for there, perhaps a named pipe among the included files"
UNPRINTABLE = "this name is not printable, so nothing in it can be protected"
UNPRINTABLE_HINT = "rename it, or remove it if it is not yours; in a shell, write the name as $'...'"
LOST = "was protected and is now a link or a pipe, which cannot be protected"
UNSEARCHED = "not searched for repositories: the project has too many directories, or these cannot be listed"
SEARCH = (
    "move large directories (dependencies, build output) out of the project or make these readable, then run it again; "
    "until then use git in them only inside the container"
)
BEFORE = "was protected before, but this search found no reference to it"
OF_OTHERS = "what all worktrees of the repository use, and git on your machine acts on"
# What git writes in a repository for each of its worktrees. Git makes `logs` when it first needs it.
DATA = ("logs", "objects", "refs", "lfs", "rr-cache")
POINTER = "without it, `git worktree prune` inside would remove this worktree"
PINNED = "can be written, but not moved or replaced"

type Pins = Callable[[Iterable[Protected]], tuple[Protected, ...]]
type Table = Mapping[str, tuple[Protected, ...]]


@cache
def load_table(file: Path = TABLE) -> Table:
    """Return the rows by section; a row's path is relative to the section's places."""
    import yaml  # noqa: PLC0415 - `status` asks the engine first

    sections = yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    return {section: tuple(Protected(**row) for row in rows) for section, rows in sections.items()}


class Candidates(Struct, frozen=True, kw_only=True):
    """The paths to protect, possible or not, and the directories that were not searched."""

    rows: tuple[Protected, ...]
    unsearched: tuple[str, ...]


class Part(Candidates, frozen=True, kw_only=True):
    """The protected paths of one directory of a repository outside the project, relative to it; "" is the directory."""

    root: Path


class Protection(Struct, frozen=True, kw_only=True):
    """The mounts, outer paths first, and the state of the paths that were protected before.

    `kept` exist and stay protected, although the search did not find them. `lost` are now links or pipes, which cannot
    be protected. `gone` no longer exist.
    """

    paths: tuple[Protected, ...]
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()

    def joined(self, other: "Protection", base: str) -> "Protection":
        """Return both, with `base` before each path of the other one."""
        found, added = ([one.kept, one.lost, one.gone, one.unsearched] for one in (self, other))
        kept, lost, gone, unsearched = (
            (*mine, *(f"{base}{path}" for path in theirs)) for mine, theirs in zip(found, added, strict=True)
        )
        paths = (*self.paths, *(replace(one, path=f"{base}{one.path}".rstrip("/")) for one in other.paths))
        return Protection(paths=paths, kept=kept, lost=lost, gone=gone, unsearched=unsearched)


def find_protected(
    project: Path,
    *,
    before: Collection[str] = (),
    unprotect: Collection[str] = (),
    written: Collection[str] = (),
    outside: Outside | None = None,
) -> Protection:
    """Return the mounts: real files and directories, what `init` creates, and what was protected `before`.

    `written` are files that `init` is about to write. The agent can make a search miss what an earlier one found. So a
    path that was protected `before` stays protected while it exists, unless the user agreed to `unprotect` it. Paths of
    a repository `outside` are absolute. Raise UserError if a found path cannot be protected.
    """
    patience = Patience(SECONDS_TO_PROTECT)
    kept = frozenset(before).difference(unprotect)
    inside = frozenset(path for path in kept if not path.startswith("/"))
    found = _protection(project, candidates(project, patience=patience, written=written), inside)
    if outside is None:
        return found
    found = replace(found, paths=(*found.paths, Protected(path=str(project / GIT), why=POINTER)))
    common, own = candidates_outside(outside, patience=patience)
    for part, pins in ((common, around_data), (own, pin_all)):
        base = f"{part.root}/"
        mine = {path.removeprefix(base) for path in kept if path.startswith(base)}
        if part is common:
            mine = set(filter(_is_data, mine))
        found = found.joined(_protection(part.root, part, mine, pins=pins), base)
    return found


def _protection(root: Path, found: Candidates, before: Collection[str], *, pins: Pins | None = None) -> Protection:
    if problems := tuple(_refusals(found.rows)):
        raise UserError(problems)
    rows = [one for one in found.rows if is_real(root, one.path) or _is_to_be_made(root, one)]
    covered = {one.path for one in rows if one.access is Access.READ}
    missed = [path for path in sorted(before) if not covered.intersection((path, *_parents(path)))]
    kept = tuple(path for path in missed if is_real(root, path))
    there = {path for path in missed if is_there(root / path)}
    return Protection(
        paths=(pins or with_pins)([*rows, *(Protected(path=path, why=BEFORE) for path in kept)]),
        kept=kept,
        lost=tuple(path for path in missed if path in there.difference(kept)),
        gone=tuple(path for path in missed if path not in there),
        unsearched=found.unsearched,
    )


def _refusals(rows: Iterable[Protected]) -> Iterator[Problem]:
    """Yield a problem for each repository that git does not describe, and for each unprintable name."""
    silent = (one.path for one in rows if one.why == NOT_SAID)
    yield from (Problem(where=spelled(path), what=NOT_SAID, hint=NOT_SAID_HINT) for path in silent)
    unprintable: dict[str, Protected] = {}
    for one in rows:
        name = next((name for name in (*_parents(one.path)[::-1], one.path) if not name.isprintable()), None)
        if name is not None:
            unprintable.setdefault(name, one)
    for name, one in unprintable.items():
        what = f"{UNPRINTABLE}: {spelled(one.path)} ({one.why})"
        yield Problem(where=spelled(name), what=what, hint=UNPRINTABLE_HINT)


def candidates(project: Path, *, patience: Patience | None = None, written: Collection[str] = ()) -> Candidates:
    """Return all existing paths to protect, including links, and what `init` creates.

    A repository whose settings git does not report counts as a whole, with the reason `NOT_SAID`.
    """
    project = Path(os.path.realpath(project))
    settings = Settings(patience or Patience())
    found = search(project, names_of=names_by(settings))
    placed = _placed(project, load_table(), found, settings)
    counted = (replace(one, always=one.always or one.path in written) for one in placed)
    rows = (one for one in counted if _counts(project, one))
    return Candidates(rows=tuple(rows), unsearched=found.unsearched)


def candidates_outside(outside: Outside, *, patience: Patience | None = None) -> tuple[Part, Part]:
    """Return the same for the repository of a worktree: for its directory, and for the worktree's entry in it.

    The directory is read-only except for `DATA`, because git in the main worktree acts on files that may not exist yet.
    """
    settings = Settings(patience or Patience())
    found = search(outside.own, names_of=names_by(settings))
    own = f"{WORKTREES}/{outside.name}"
    places = [replace(place, path=f"{own}/{place.path}".rstrip("/")) for place in found.places]
    listing, table = Listing(outside.common), load_table()
    rows: list[Protected] = []
    for place in (Place(kind=Kind.REPOSITORY, path=""), *places):
        rows += _at(listing, place.path, table[place.kind.value])
        rows += _named(outside.common, place, table["settings"], settings)
    rows = [one for one in rows if _counts(outside.common, one)]
    inner = [one for one in rows if PurePosixPath(one.path).is_relative_to(own)]
    shared = (
        Protected(path="", why=OF_OTHERS),
        *(Protected(path=name, access=Access.PINNED, why=PINNED, always=name == DATA[0]) for name in DATA),
        *(one for one in rows if _is_data(one.path) or one.why == NOT_SAID),
    )
    return (
        Part(root=outside.common, rows=tuple(one for one in shared if _counts(outside.common, one)), unsearched=()),
        Part(
            root=outside.own,
            rows=tuple(replace(one, path=one.path.removeprefix(own).lstrip("/") or ".") for one in inner),
            unsearched=found.unsearched,
        ),
    )


def _is_data(path: str) -> bool:
    return PurePosixPath(path).parts[:1] in {(name,) for name in DATA}


def _counts(project: Path, one: Protected) -> bool:
    return one.always or is_there(project / one.path)


def spelled(path: str) -> str:
    r"""Return a path with unprintable characters escaped as in a shell's `$'...'`.

    >>> spelled("docs\u200b/\udcff")
    'docs\\u200b/\\xff'
    """
    return "".join(sign if sign.isprintable() else _spelled(sign) for sign in path)


def _spelled(sign: str) -> str:
    byte = ord(sign) - 0xDC00  # of a name that is not UTF-8
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else ascii(sign)[1:-1]


def _placed(project: Path, table: Table, found: Found, settings: Settings) -> Iterator[Protected]:
    listing = Listing(project)
    of_agents = (Protected(path=row.path, why=row.why) for row in host_reads())
    yield from _at(listing, "", (*table["workspace"], *of_agents))
    for place in found.places:
        # Without a hooks directory in `.git`, `init` creates it as `git init` would. Other repositories are left alone.
        rows = table[place.kind.value] if GIT in Path(place.path).parts else _where_there(table[place.kind.value])
        yield from _at(listing, place.path, rows)
        yield from _named(project, place, table["settings"], settings)


def _named(project: Path, place: Place, rows: Iterable[Protected], settings: Settings) -> Iterator[Protected]:
    """Yield the paths that a repository's settings name."""
    whys = {row.path: row.why for row in rows}
    folder = project / place.path
    repository, base = folder, folder.parent if folder.name == GIT else folder
    if place.kind is Kind.POINTER:
        repository, base = target_of(folder / GIT) or folder / GIT, folder
    try:
        yield from (Protected(path=path, why=whys[kind]) for kind, path in named(project, repository, base, settings))
    except NotSaidError:
        pointed = place.kind is Kind.POINTER
        yield Protected(path=f"{place.path}/{GIT}".lstrip("/") if pointed else place.path or ".", why=NOT_SAID)


def _at(listing: Listing, place: str, rows: Iterable[Protected]) -> Iterator[Protected]:
    for row in rows:
        plain = f"{place}/{row.path}".lstrip("/")
        for path in listing.matching(place, row.path):
            yield Protected(path=path, why=row.why, always=row.always and path == plain)


def _where_there(rows: Iterable[Protected]) -> Iterator[Protected]:
    return (replace(row, always=False) for row in rows)


def with_pins(found: Iterable[Protected]) -> tuple[Protected, ...]:
    """Return each path once, without paths inside others, and with the directories to pin.

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


def pin_all(found: Iterable[Protected]) -> tuple[Protected, ...]:
    """Do the same for a git directory of any name: pin it and all directories on its path."""
    pinned = with_pins(replace(one, path=f"{GIT}/{one.path}") for one in found)
    return tuple(replace(one, path=one.path.removeprefix(GIT).lstrip("/")) for one in pinned)


def around_data(found: Iterable[Protected]) -> tuple[Protected, ...]:
    """Do the same for a read-only directory that contains directories to which git writes."""
    rows = tuple(found)
    outer = tuple(one for one in rows if not one.path or one.access is Access.PINNED)
    inner = (one for one in pin_all(one for one in rows if one not in outer) if one.path)
    return tuple({one.path: one for one in (*outer, *inner)}.values())


def _parents(path: str) -> tuple[str, ...]:
    return tuple(str(parent) for parent in PurePosixPath(path).parents if parent.parts)


def is_there(place: Path) -> bool:
    """Return whether anything exists there, even a broken link."""
    try:
        place.lstat()
    except OSError:
        return False
    return True


def _is_to_be_made(project: Path, one: Protected) -> bool:
    parent = str(PurePosixPath(one.path).parent)
    return one.always and not is_there(project / one.path) and (parent == "." or is_real(project, parent))
