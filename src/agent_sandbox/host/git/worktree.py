"""Find a repository that is outside its project, and decide whether the sandbox can use it.

The repository of a linked worktree is used if it names the worktree too: anyone can write a `.git` file that leads
anywhere, but only git, or the repository's owner, writes the entry that leads back.
"""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from agent_sandbox.host.git.repositories import GIT, GITDIR, MODULES, WORKTREES, target_of, text_of

COMMON = "../.."  # as git writes it for every worktree
PROTECTED = ("hooks", "config.worktree", "commondir", "remotes", "branches", MODULES, WORKTREES)
NAMES = (".git", ".bare", "bare")
# What the agent container has there must stay visible, and root's home cannot be entered.
OF_THE_IMAGE = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys", "usr"}
) | {"workspace"}
HOME = Path("/home/dev")

MOVE = "move it to another directory, and run `git worktree repair`"
MAIN = "run agent-sandbox in the repository's own directory instead, or in a clone"
REPAIR = "if it is yours, run `git worktree repair` here"
SUBMODULE = (
    "run agent-sandbox in the directory of the repository that contains it: there, git works in its submodules too"
)
SUBDIRECTORY = (
    "`agent-sandbox init AGENT --path {}` makes a sandbox for all of it; to leave files out, use a worktree with"
    " `git sparse-checkout`"
)


class Outside(Struct, frozen=True, kw_only=True):
    """A worktree's repository: its real directory, which has the same path inside, and the name of the worktree."""

    common: Path
    name: str

    @property
    def has_submodules(self) -> bool:
        """Whether the worktree has submodules; git does not work in them inside, because their paths are relative."""
        return (self.own / MODULES).exists()

    @property
    def own(self) -> Path:
        """The directory of this worktree's entry in the repository."""
        return self.common / WORKTREES / self.name


class NoGit(Struct, frozen=True, kw_only=True):
    """Why git does not work inside, and what to do."""

    why: str
    hint: str


def repository_outside(project: Path, homes: Iterable[Path] = ()) -> Outside | NoGit | None:
    """Return the repository if it is outside the project, or why it is not used; None if it is not outside.

    `homes` are directories that are never mounted.
    """
    project = Path(os.path.realpath(project))
    pointer = project / GIT
    if not os.path.lexists(pointer):
        return _of_a_parent(project)
    target = None if os.path.isdir(pointer) and not os.path.islink(pointer) else target_of(pointer)
    if target is None or Path(os.path.realpath(target)).is_relative_to(project):
        return None
    try:
        problem = next(_problems(project, target, homes), None)
    except OSError as error:
        problem = NoGit(why=f"{target} cannot be read: {(error.strerror or str(error)).lower()}", hint=REPAIR)
    return problem or Outside(common=target.parent.parent, name=target.name)


def _of_a_parent(project: Path) -> NoGit | None:
    parent = next((folder for folder in project.parents if os.path.lexists(folder / GIT)), None)
    if parent is None:
        return None
    why = f"this directory is part of the repository in {parent}, which is not in the sandbox"
    return NoGit(why=why, hint=SUBDIRECTORY.format(shlex.quote(str(parent))))


def _problems(project: Path, target: Path, homes: Iterable[Path]) -> Iterator[NoGit]:
    """Yield why the repository that the `.git` file leads to is not used; each check relies on those before it."""
    yield from _of_the_pointer(project, target)
    common = target.parent.parent
    if os.path.realpath(target) != str(target) or not _is_plain(target):
        yield NoGit(why=f"{target} is incomplete, or there is a symbolic link in its path or in it", hint=MAIN)
    if target.parent.name != WORKTREES or text_of(target / "commondir") != COMMON or not _leads_back(project, target):
        yield NoGit(why=f"{target} does not name this directory as its worktree", hint=REPAIR)
    if any(place.lstat().st_uid != project.lstat().st_uid for place in (common, *_files(target))):
        yield NoGit(why=f"{common} belongs to another user than this directory", hint=MAIN)
    if not has_usual_name(common):
        yield NoGit(why=f"{common} is not named `.git`, `.bare` or `NAME.git`", hint=MAIN)
    if any(place.is_relative_to(common) for place in (project, *homes)):
        yield NoGit(why=f"{common} contains this directory or your home directory", hint=MAIN)
    for place in (common, project):
        if not _is_free(place):
            yield NoGit(why=f"the agent container has its own directories at {place}", hint=MOVE)


def _of_the_pointer(project: Path, target: Path) -> Iterator[NoGit]:
    for place in (target, project):
        if not str(place).isprintable():
            yield NoGit(why=f"the path {str(place)!a} is not printable", hint="rename the directory")
    if not os.path.lexists(target):
        yield NoGit(why=f"{target} does not exist", hint=REPAIR)
    if not os.path.lexists(target / "commondir"):
        yield _not_a_worktree(target)
    if os.path.islink(project / GIT):
        yield NoGit(why="`.git` is a symbolic link", hint=MAIN)
    if not text_of(project / GIT).startswith(f"{GITDIR}/"):
        why = "the `.git` file has a relative path, which would lead elsewhere inside"
        yield NoGit(why=why, hint="run `git worktree repair --no-relative-paths` here")


def _not_a_worktree(target: Path) -> NoGit:
    if MODULES in target.parts:
        return NoGit(why=f"this directory is a submodule, whose repository is outside, in {target}", hint=SUBMODULE)
    return NoGit(why=f"its repository is outside, in {target}, and does not name this directory", hint=MAIN)


def has_usual_name(common: Path) -> bool:
    """Return whether a directory is named as git and its users name repositories."""
    return common.name in NAMES or common.name.endswith(GIT)


def _leads_back(project: Path, target: Path) -> bool:
    named = text_of(target / "gitdir")
    return bool(named) and os.path.realpath(target / named) == str(project / GIT)


def _files(target: Path) -> tuple[Path, ...]:
    """Return the files that git reads first in the worktree's entry and in its repository."""
    common = target.parent.parent
    own = (target, *(target / name for name in ("commondir", "gitdir", "HEAD")))
    return (*own, *(common / name for name in ("HEAD", "config", "objects", "refs")))


def _is_plain(target: Path) -> bool:
    """Return whether all these files exist, and neither they nor the protected paths are symbolic links."""
    protected = (target.parent.parent / name for name in PROTECTED)
    return all(map(_is_real, (*_files(target), *filter(os.path.lexists, protected))))


def _is_real(place: Path) -> bool:
    try:
        mode = place.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_free(common: Path) -> bool:
    if common.parts[1] in OF_THE_IMAGE:
        return False
    return common != HOME and not (common.is_relative_to(HOME) and common.relative_to(HOME).parts[0].startswith("."))
