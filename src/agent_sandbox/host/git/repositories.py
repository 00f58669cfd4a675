"""Find every place in a project that git on the host machine would treat as a repository.

What git knows by name (submodules, worktrees, alternates, the target of a `.git` file) is looked up. A bounded walk
finds the rest; the result lists the directories that it did not reach.
"""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, StrEnum
from pathlib import Path, PurePosixPath

from msgspec import Struct

# The limit of each kind of search, in directories; enough for almost all projects without installed packages.
MAX_FOLDERS = 20_000
MAX_ENTRIES = 100_000  # of one directory
MAX_POINTER = 64 << 10
GIT = ".git"
GITDIR = "gitdir: "
MODULES, WORKTREES = "modules", "worktrees"
# Where a repository stores objects and references; git finds no other repositories there.
STORES = frozenset({"objects", "refs", "logs"})
TELLING = ("HEAD", "objects", "refs", "commondir", "gitdir", GIT)


class Kind(StrEnum):
    """The role of a directory for git."""

    REPOSITORY = "repository"
    WORKTREE = "worktree"  # where a repository keeps what is one worktree's own
    POINTER = "pointer"  # a directory whose `.git` is a file, or a link, that leads to a repository


class Place(Struct, frozen=True, kw_only=True):
    """A directory, relative to the project's root."""

    kind: Kind
    path: str


class Found(Struct, frozen=True, kw_only=True):
    """The places, and the directories that were not searched."""

    places: tuple[Place, ...]
    unsearched: tuple[str, ...] = ()


class Rank(IntEnum):
    """Why a directory is searched; each reason has a separate limit, so none can exhaust another's."""

    NAMED = 0  # by git
    STRUCTURE = 1  # where git keeps the repositories of submodules and worktrees
    FILES = 2
    GIT = 3  # anything else in a repository


type NamesOf = Callable[[Path, Path | None], Iterable[Path]]


def no_names(_repository: Path, _top: Path | None) -> Iterable[Path]:
    """Return no names: search only by what is on the disk."""
    return ()


def search(project: Path, *, names_of: NamesOf = no_names, limit: int | None = None) -> Found:
    """Return the places; links are not followed.

    `names_of` is called for each repository, with its work tree if it has one, and returns the directories that git
    knows by name.
    """
    return _Search(Path(os.path.realpath(project)), names_of, MAX_FOLDERS if limit is None else limit).run()


def target_of(pointer: Path) -> Path | None:
    """Return the repository that a `.git` file or link points to.

    A link may lead to such a file: git reads it, and takes what it says relative to the link.
    """
    real = Path(os.path.realpath(pointer))
    if os.path.islink(pointer) and not os.path.isfile(real):
        return real
    text = text_of(real)
    return pointer.parent / text.removeprefix(GITDIR) if text.startswith(GITDIR) else None


class _Entries(Struct):
    folders: set[str] = set()
    others: set[str] = set()
    links: set[str] = set()  # some of the others
    whole: bool = True

    @property
    def kind(self) -> Kind | None:
        """Return how git treats a directory that contains these names."""
        if "HEAD" not in self.others:
            return None
        if {"objects", "refs"} <= self.folders | self.others:
            return Kind.REPOSITORY
        return Kind.WORKTREE if "commondir" in self.others else None


class _Search:
    def __init__(self, project: Path, names_of: NamesOf, limit: int) -> None:
        self._project, self._names_of = project, names_of
        self._left = dict.fromkeys(Rank, limit)
        self._waiting: dict[Rank, deque[str]] = {rank: deque() for rank in Rank}
        self._seen: set[str] = set()
        self._unsearched: list[str] = []
        self._links: list[tuple[str, str]] = []  # each with its directory
        self._is_entered = False  # one of them leads into git's own directories

    def run(self) -> Found:
        self._waiting[Rank.FILES].append("")
        places: list[Place] = []
        while (rank := self._next()) is not None:
            path = self._waiting[rank].popleft()
            if path not in self._seen:
                self._left[rank] -= 1
                self._seen.add(path)
                places += self._visit(path, rank)
        left = (path for waiting in self._waiting.values() for path in waiting if path not in self._seen)
        return Found(places=tuple(places), unsearched=tuple(dict.fromkeys((*self._unsearched, *left))))

    def _next(self) -> Rank | None:
        return next((rank for rank in Rank if self._waiting[rank] and self._left[rank] > 0), None)

    def _visit(self, path: str, rank: Rank) -> Iterator[Place]:
        folder = self._project / path
        entries = _entries(folder)
        if not entries.whole:
            self._unsearched.append(path or ".")
        kind = entries.kind
        if kind is not None:
            yield Place(kind=kind, path=path)
            top = folder.parent if folder.name == GIT else None
            self._name((*_leads(folder), *self._names_of(folder, top)))
            yield from self._common(folder)
        self._follow(path, sorted(entries.links))
        if GIT in entries.others:
            yield Place(kind=Kind.POINTER, path=path)
            target = target_of(folder / GIT)
            self._name(() if target is None else (target, *self._names_of(target, folder)))
        # The agent can make any folder look like a repository, so only those in a `.git` may skip the search of stores.
        stores = STORES if kind and GIT in folder.relative_to(self._project).parts else frozenset[str]()
        for name in sorted(entries.folders):
            if name not in stores or _entries(folder / name).kind:
                inner = f"{path}/{name}".lstrip("/")
                self._waiting[_rank(name, inner, kind, rank)].append(inner)

    def _name(self, folders: Iterable[Path]) -> None:
        self._waiting[Rank.NAMED].extend(path for folder in folders if (path := self._inside(folder)) is not None)

    def _follow(self, path: str, links: Iterable[str]) -> None:
        """Name what a link leads to where the walk itself may leave it out: someone can enter it by the link.

        A path gets into git's own directories only where a link says so. Until one does, the others are not resolved.
        """
        new = [(path, name) for name in links]
        self._links += new
        resolved = new if self._is_entered else [one for one in new if _may_enter_git(self._project, *one)]
        for folder, name in resolved:
            self._enter(self._project / folder / name)

    def _enter(self, link: Path) -> None:
        path = self._inside(link)
        if path is None or GIT not in PurePosixPath(path).parts:
            return
        self._waiting[Rank.NAMED].append(path)
        if not self._is_entered:
            self._is_entered = True
            for folder, name in self._links:
                self._enter(self._project / folder / name)

    def _common(self, repository: Path) -> Iterator[Place]:
        """Yield the directory that this repository shares, where it has no HEAD: its hooks and settings count."""
        common = text_of(repository / "commondir")
        path = self._inside(repository / common) if common else None
        if path is not None and _entries(self._project / path).kind is None:
            yield Place(kind=Kind.REPOSITORY, path=path)

    def _inside(self, folder: Path) -> str | None:
        """Return a directory of the project, relative to it, with all links resolved; None for anything else."""
        real = Path(os.path.realpath(folder))
        found = real.is_relative_to(self._project) and os.path.isdir(real)
        return "/".join(real.relative_to(self._project).parts) if found else None


def _rank(name: str, path: str, kind: Kind | None, parent: Rank) -> Rank:
    if name == GIT or (kind and name in {MODULES, WORKTREES}) or (kind is None and parent is Rank.STRUCTURE):
        return Rank.STRUCTURE
    return Rank.GIT if kind or GIT in PurePosixPath(path).parts else Rank.FILES


def _may_enter_git(project: Path, folder: str, name: str) -> bool:
    """Tell whether a link leads to a `.git` by its text, or to a place that its text does not say."""
    try:
        text = os.readlink(project / folder / name)  # noqa: PTH115 - many are looked at
    except OSError:
        return False
    leaves = text.startswith("/") or os.path.normpath(f"./{folder}/{text}").startswith("..")
    return leaves or GIT in text.casefold() or "/.." in text.lstrip("./")


def _leads(repository: Path) -> Iterator[Path]:
    """Yield the places that a repository's files point to: its common directory, worktree and alternates."""
    if common := text_of(repository / "commondir"):
        yield repository / common
    if pointer := text_of(repository / "gitdir"):
        yield (repository / pointer).parent
    objects = repository / "objects"
    for line in text_of(objects / "info" / "alternates").split("\n"):
        if line and not line.startswith("#"):
            yield (objects / line).parent


def text_of(file: Path) -> str:
    """Return the text of a small file of git's, which may be a link to one; nothing for a pipe, which would block."""
    if not os.path.isfile(file):  # a device is not even opened
        return ""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            # To git, a path ends at the first null byte.
            return os.fsdecode(opened.read(MAX_POINTER).rstrip(b"\r\n").partition(b"\0")[0])
    except OSError:
        return ""


def _entries(folder: Path) -> _Entries:
    found = _Entries()
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number == MAX_ENTRIES:
                    _by_name(folder, found)
                    break
                (found.folders if entry.is_dir(follow_symlinks=False) else found.others).add(entry.name)
                if entry.is_symlink():
                    found.links.add(entry.name)
    except OSError:
        # What we cannot enter, git cannot either. What can be entered but not listed, git opens by name.
        if os.access(folder, os.X_OK):
            _by_name(folder, found)
    return found


def _by_name(folder: Path, found: _Entries) -> None:
    """Look for the names that git opens, in a directory that cannot be listed."""
    found.whole = False
    for name in (*TELLING, MODULES, WORKTREES):
        place = folder / name
        if os.path.isdir(place) and not os.path.islink(place):
            found.folders.add(name)
        elif os.path.lexists(place):
            found.others.add(name)
