"""Write packs and references into the project's repository through directory handles.

The agent of the project's own sandbox can write in that repository meanwhile, and put a link to another place of the
host machine where git is about to write. Below the repository's directory, no link is followed here.
"""

import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct

from agent_sandbox.host.files import make_folders, new_owner, open_folder, problem_of
from agent_sandbox.problems import Problem, UserError

WHO = "agent-sandbox <agent-sandbox>"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe fails instead of blocking.
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# The index is last: without it, git ignores the pack.
PARTS = (".rev", ".pack", ".idx")
PACKS = "objects/pack"
LOCKED = "a git command is changing this reference"
LOCKED_HINT = "run it again; if no git command runs in the project, remove {}"


class Update(Struct, frozen=True, kw_only=True):
    """A reference that is to get a new commit; `before` is the former one, or the hash of zeros."""

    reference: str
    commit: str
    before: str


def copy_pack(git: Path, pack: Path) -> None:
    """Copy a checked pack and its index into a repository."""
    with _problems(git / PACKS), ExitStack() as stack:
        _make_parents(git, f"{PACKS}/x")
        folder = open_folder(stack, git, f"{PACKS}/x")
        for part in filter(Path.exists, map(pack.with_suffix, PARTS)):
            temporary = f"tmp_{part.name}_{os.getpid()}"
            stack.callback(_remove, temporary, folder)
            with part.open("rb") as source, os.fdopen(_new(temporary, 0o444, folder), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
            os.rename(temporary, part.name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def locked_references(git: Path, updates: Sequence[Update], message: str) -> Iterator[None]:
    """Lock the references as git does, and write them with their logs when the block ends without an exception."""
    with ExitStack() as stack:
        held = [(one, *_lock(stack, git, one)) for one in updates]
        yield
        for one, folder, removal in held:
            name = PurePosixPath(one.reference).name
            with _problems(git / one.reference):
                _log(git, one, message)
                with suppress(OSError):  # git leaves empty directories where references were
                    os.rmdir(name, dir_fd=folder)
                os.rename(f"{name}.lock", name, src_dir_fd=folder, dst_dir_fd=folder)
                removal.pop_all()  # from here on, a lock file with this name belongs to a git command


def _lock(stack: ExitStack, git: Path, update: Update) -> tuple[int, ExitStack]:
    """Stage the reference's new content in its lock file; return the handle of its directory, and what removes it."""
    place = git / update.reference
    with _problems(place):
        _make_parents(git, update.reference)
        folder, lock = open_folder(stack, git, update.reference), f"{place.name}.lock"
        try:
            handle = _new(lock, 0o666, folder)
        except FileExistsError as error:
            hint = LOCKED_HINT.format(f"{place}.lock")
            raise UserError([Problem(where=str(place), what=LOCKED, hint=hint)]) from error
        removal = stack.enter_context(ExitStack())
        removal.callback(_remove, lock, folder)
        with os.fdopen(handle, "wb") as file:
            file.write(f"{update.commit}\n".encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
    return folder, removal


def _log(git: Path, update: Update, message: str) -> None:
    """Append to the reference's log."""
    path = f"logs/{update.reference}"
    line = f"{update.before} {update.commit} {WHO} {int(time.time())} +0000\t{message}\n"
    _make_parents(git, path)
    with ExitStack() as stack:
        folder, name = open_folder(stack, git, path), PurePosixPath(path).name
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)
        handle = os.open(name, APPEND, 0o666, dir_fd=folder)
        stack.callback(os.close, handle)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            what = "not a regular file, or a hard link to another one"
            raise UserError([Problem(where=str(git / path), what=what, hint="remove it")])
        os.write(handle, line.encode("utf-8"))


def _make_parents(git: Path, path: str) -> None:
    parents = [str(folder) for folder in PurePosixPath(path).parents][-2::-1]
    make_folders(git, parents)


def _new(name: str, mode: int, folder: int) -> int:
    handle = os.open(name, NEW, mode, dir_fd=folder)
    if os.geteuid() == 0:
        os.fchown(handle, *new_owner(folder))
    return handle


def _remove(name: str, folder: int) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


@contextmanager
def _problems(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError([problem_of(str(where), error)]) from error
