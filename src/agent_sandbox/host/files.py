"""Read and write a few files of one project: never through a symbolic link, never partially.

Everything goes through directory handles: what was checked is what is written, even if a directory is exchanged
meanwhile. A set of files is first staged next to its targets, then moved into place.
"""

import errno
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from agent_sandbox.atomic_file import STAGED, place, stage
from agent_sandbox.host.user_dirs import state_name
from agent_sandbox.problems import Problem, UserError

MAX_BYTES = 1 << 20
CHUNK = 1 << 18
# Each command holds the lock of a project for milliseconds, never while it asks, builds or waits for an engine.
LOCK_SECONDS = 60.0
LOCK_STEP = 0.02
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe does not block; it is then recognised and rejected.
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

READ = stat.S_IRGRP | stat.S_IROTH
FOLLOW = READ | stat.S_IXGRP | stat.S_IXOTH

NO_ROOM = "free some space and run it again; nothing was changed"
NO_RIGHT = "you have no permission to write there: `ls -ld` shows the owner"
NO_FILE = "move it away: a regular text file belongs there"
A_LINK = "agent-sandbox does not follow symbolic links: replace it with a real file or directory"
HINTS: Mapping[int, str] = {
    errno.ENOSPC: NO_ROOM,
    errno.EDQUOT: NO_ROOM,
    errno.EFBIG: NO_ROOM,
    errno.EROFS: "the file system is read-only: choose a writable directory",
    errno.EACCES: NO_RIGHT,
    errno.EPERM: NO_RIGHT,
    errno.ELOOP: A_LINK,
    errno.EINVAL: NO_FILE,
    errno.EISDIR: NO_FILE,
}


def read_bytes(root: Path, path: str, *, limit: int = MAX_BYTES) -> bytes | None:
    """Return at most `limit` bytes of a project's file, or None if it does not exist; raise OSError.

    >>> read_bytes(Path("/"), "no/such/file") is None
    True
    """
    with ExitStack() as stack:
        try:
            file = _open_regular(stack, root, path)
        except FileNotFoundError:
            return None
        return file.read(limit)


def hash_file(root: Path, path: str, *, limit: int) -> bytes:
    """Return the SHA-256 of a project's file, of at most `limit` bytes; raise OSError."""
    found = hashlib.sha256()
    with ExitStack() as stack:
        file = _open_regular(stack, root, path)
        while limit > 0 and (data := file.read(min(limit, CHUNK))):
            found.update(data)
            limit -= len(data)
    return found.digest()


def _open_regular(stack: ExitStack, root: Path, path: str) -> BinaryIO:
    folder = open_folder(stack, root, path)
    file = stack.enter_context(os.fdopen(os.open(Path(path).name, REGULAR, dir_fd=folder), "rb"))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def read_text(root: Path, path: str) -> str | None:
    """Return a project's text file, or None if missing; raise UserError for links, pipes, huge files, non-UTF-8."""
    where = str(root / path)
    try:
        data = read_bytes(root, path, limit=MAX_BYTES + 1)
        text = data.decode() if data is not None else None
    except UnicodeDecodeError as error:
        raise UserError(
            [Problem(where=where, what=f"not UTF-8 text at byte {error.start}", hint="save it as UTF-8")]
        ) from error
    except OSError as error:
        raise UserError([problem_of(where, error)]) from error
    if data is not None and len(data) > MAX_BYTES:
        what = f"larger than {MAX_BYTES >> 20} MiB"
        raise UserError([Problem(where=where, what=what, hint=NO_FILE)])
    return text


def write_all(root: Path, files: Mapping[str, str], *, shared: Collection[str] = ()) -> None:
    """Write all of these files or none; each is replaced atomically and keeps its mode.

    New files and folders in `shared` are readable for other users, whatever the umask.
    """
    targets: list[_Target] = []
    where = root
    made: list[Path] = []
    with ExitStack() as stack:
        try:
            for path, text in files.items():
                where = root / path
                new = _make_folder(root, Path(path).parent) if where.parent != root else []
                made += new
                folder = open_folder(stack, root, path)
                if new and any(Path(one).parent == Path(path).parent for one in shared):
                    _let_others(folder, FOLLOW)
                target = _Target(folder=folder, name=where.name, data=text.encode(), shared=path in shared)
                targets.append(target)
                stack.callback(target.release)
                _sweep(folder, where.name)
                target.stage()
            for target in targets:
                where = root / target.name
                target.place()
        except BaseException as error:  # Ctrl-C too leaves nothing behind
            for target in reversed(targets):
                target.undo()
            for one in made:
                with suppress(OSError):
                    one.rmdir()
            if isinstance(error, OSError):
                raise UserError([problem_of(str(where), error)]) from error
            raise


def write_private(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a directory of the user's state, which no other user can read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError([problem_of(str(folder), error)]) from error
    write_all(folder, files)


def remove_leftovers(root: Path, paths: Iterable[str]) -> None:
    """Remove staged files that a killed command left; keep those that another command is writing."""
    for path in paths:
        with ExitStack() as stack, suppress(OSError):
            _sweep(open_folder(stack, root, path), Path(path).name)


def make_folders(root: Path, paths: Iterable[str]) -> None:
    """Create the missing directories; their parents exist, and links are not followed."""
    for path in paths:
        with ExitStack() as stack:
            try:
                _make_directory(open_folder(stack, root, path), Path(path).name)
            except FileExistsError:
                continue
            except OSError as error:
                raise UserError([problem_of(str(root / path), error)]) from error


def problem_of(where: str, error: OSError) -> Problem:
    """Return the problem for an OSError, with a hint."""
    # None of our files is deeper than two folders.
    link = next((folder for folder in Path(where).parents[:2] if os.path.islink(folder)), None)
    if error.errno == errno.ENOTDIR and link:
        return Problem(where=str(link), what="cannot be used", hint=A_LINK)
    reason = (error.strerror or str(error)).lower()
    return Problem(where=where, what=f"cannot be used: {reason}", hint=HINTS.get(error.errno or 0, ""))


class _Target(Struct, kw_only=True):
    """One file: staged next to its target, moved there, and moved back if another one fails."""

    folder: int
    name: str
    data: bytes
    shared: bool = False
    before: bytes | None = None
    mode: int | None = None
    temporary: str = ""
    touched: bool = False
    # Locked while staged, so that `_sweep` of another command keeps it.
    handle: int = -1

    def stage(self) -> None:
        own = False
        with suppress(FileNotFoundError):
            handle = os.open(self.name, REGULAR, dir_fd=self.folder)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise OSError(errno.EINVAL, "not a regular file")
                own = found.st_uid == new_owner(self.folder)[0] and found.st_nlink == 1
                self.mode = stat.S_IMODE(found.st_mode)
                self.before = file.read()
        # Existing content needs no write, unless another name or owner could change it.
        if self.before != self.data or not own:
            self._write(self.data)

    def place(self) -> None:
        if not self.temporary:
            return
        self.touched = True
        place(self.folder, self.temporary, self.name)
        os.fsync(self.folder)

    def undo(self) -> None:
        with suppress(OSError):
            if self.touched and self.before is None:
                os.unlink(self.name, dir_fd=self.folder)
            elif self.touched and self.before is not None:
                self._write(self.before)
                place(self.folder, self.temporary, self.name)
        if self.temporary:
            with suppress(OSError):
                os.unlink(self.temporary, dir_fd=self.folder)

    def release(self) -> None:
        """Close and unlock the file, which is in place or removed."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def _write(self, data: bytes) -> None:
        self.release()
        self.temporary = stage(self.folder, self.name, data, prepare=self._prepare, mode=0o666)

    def _prepare(self, handle: int) -> None:
        self.handle = os.dup(handle)
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchown(handle, *new_owner(self.folder))
        if self.mode is not None:
            os.fchmod(handle, self.mode)
        elif self.shared:
            _let_others(handle, READ)


def new_owner(folder: int) -> tuple[int, int]:
    """Return the owner for a new file: the user, or under sudo the folder's owner."""
    found = os.fstat(folder)
    return (found.st_uid, found.st_gid) if os.geteuid() == 0 else (os.geteuid(), -1)


def _sweep(folder: int, name: str) -> None:
    staged = re.compile(STAGED.format(re.escape(name)))
    for left in filter(staged.fullmatch, os.listdir(folder)):
        with suppress(OSError):
            _remove_leftover(folder, left)


def _remove_leftover(folder: int, name: str) -> None:
    """Remove a regular file that is ours and that no command is writing."""
    handle = os.open(name, REGULAR, dir_fd=folder)
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in {os.geteuid(), new_owner(folder)[0]}:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(handle)


def _let_others(handle: int, rights: int) -> None:
    os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | rights)


def _make_folder(root: Path, folder: Path) -> list[Path]:
    with ExitStack() as stack:
        try:
            _make_directory(open_folder(stack, root, str(folder)), folder.name)
        except FileExistsError:
            return []
    return [root / folder]


def _make_directory(folder: int, name: str) -> None:
    """Create a directory; under sudo, it belongs to the owner of the one that contains it."""
    os.mkdir(name, dir_fd=folder)
    if os.geteuid() == 0:
        os.chown(name, *new_owner(folder), dir_fd=folder, follow_symlinks=False)


def open_folder(stack: ExitStack, root: Path, path: str) -> int:
    """Open a file's directory; below the project's root, links are not followed."""
    handle = os.open(root, DIRECTORY)
    stack.callback(os.close, handle)
    for part in Path(path).parts[:-1]:
        handle = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        stack.callback(os.close, handle)
    return handle


def is_real(project: Path, path: str) -> bool:
    """Return whether a file or directory exists without a symbolic link on the way, which the engine would follow."""
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


@contextmanager
def project_lock(root: Path, state: Path, *, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Hold the lock of the project in this directory; wait for it, and raise UserError if it stays taken.

    The lock is in `state`, the user's state directory: an agent could hold one in the project, and so prevent a deny.
    """
    folder = state / "locks"
    place = folder / f"{state_name(root.resolve())}.lock"
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_folders(state, [folder.name])
        handle = os.open(place, LOCK_FLAGS, 0o600)
        if os.geteuid() == 0:  # after a command under sudo, the user still has to open it
            os.fchown(handle, folder.stat().st_uid, folder.stat().st_gid)
    except OSError as error:
        raise UserError([problem_of(str(place), error)]) from error
    try:
        end = clock() + LOCK_SECONDS
        while not _taken(handle, place):
            if clock() > end:
                what, hint = "another command is writing this project's files", f"end it: fuser {place} shows it"
                raise UserError([Problem(where=str(root), what=what, hint=hint)])
            time.sleep(LOCK_STEP)
        yield
    finally:
        os.close(handle)


def _taken(handle: int, place: Path) -> bool:
    """Take the lock if it is free; return whether it is ours."""
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError as error:
        raise UserError([problem_of(str(place), error)]) from error
    return False
