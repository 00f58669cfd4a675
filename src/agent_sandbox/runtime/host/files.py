"""Reads and writes a handful of files of one project: never through a symbolic link, never half.

Everything goes through directory handles: what was looked at is what is written to, also when somebody exchanges a
directory meanwhile. A set of files is staged in full beside its targets; only then it is moved into place.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.problems import Problem, UserError

MAX_BYTES = 1 << 20
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a pipe is opened at once, seen for what it is, and refused.
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# What a file is called on its way to its place: `.NAME.HEX.tmp`.
STAGED = r"\.{}\.[0-9a-f]{{12}}\.tmp"

READ = stat.S_IRGRP | stat.S_IROTH
FOLLOW = READ | stat.S_IXGRP | stat.S_IXOTH

NO_ROOM = "make room and run it again; nothing was changed"
NO_RIGHT = "you may not write there: `ls -ld` says whose it is"
NO_FILE = "move it away: a plain file of text belongs there"
A_LINK = "it is a symbolic link, which agent-sandbox does not follow: put a real one in its place"
HINTS: Mapping[int, str] = {
    errno.ENOSPC: NO_ROOM,
    errno.EDQUOT: NO_ROOM,
    errno.EFBIG: NO_ROOM,
    errno.EROFS: "the file system is read-only: choose a directory that can be written to",
    errno.EACCES: NO_RIGHT,
    errno.EPERM: NO_RIGHT,
    errno.ELOOP: A_LINK,
    errno.EINVAL: NO_FILE,
    errno.EISDIR: NO_FILE,
}


def read_bytes(root: Path, path: str, *, limit: int = MAX_BYTES) -> bytes | None:
    """Return at most `limit` bytes of a project's file, None where there is none; raises OSError.

    >>> read_bytes(Path("/"), "no/such/file") is None
    True
    """
    with ExitStack() as stack:
        try:
            folder = _open_folder(stack, root, path)
            handle = os.open(Path(path).name, REGULAR, dir_fd=folder)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "is no regular file")
            return file.read(limit)


def read_text(root: Path, path: str) -> str | None:
    """Return a project's text file, None where there is none; a link, a pipe, 50 MB and Latin-1 are problems."""
    where = str(root / path)
    try:
        data = read_bytes(root, path, limit=MAX_BYTES + 1)
        text = data.decode() if data is not None else None
    except UnicodeDecodeError as error:
        raise UserError(
            [Problem(where=where, what=f"is not UTF-8 text: see byte {error.start}", hint="save it as UTF-8")]
        ) from error
    except OSError as error:
        raise UserError([problem_of(where, error)]) from error
    if data is not None and len(data) > MAX_BYTES:
        what = f"is larger than {MAX_BYTES >> 20} MiB, and not what it should be"
        raise UserError([Problem(where=where, what=what, hint=NO_FILE)])
    return text


def write_all(root: Path, files: Mapping[str, str], *, shared: Collection[str] = ()) -> None:
    """Write all of these files or none of them; each is replaced in one step and keeps its mode.

    Those that are `shared` are for other users to read, where they and their folders are new, whatever the umask says.
    """
    targets: list[_Target] = []
    where = root
    made: list[Path] = []
    with ExitStack() as stack:
        try:
            for path, text in files.items():
                where = root / path
                new = _make_folder(where.parent) if where.parent != root else []
                made += new
                folder = _open_folder(stack, root, path)
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


def remove_leftovers(root: Path, paths: Iterable[str]) -> None:
    """Remove what a command that was killed has left beside these files; what another one is writing stays."""
    for path in paths:
        with ExitStack() as stack, suppress(OSError):
            _sweep(_open_folder(stack, root, path), Path(path).name)


def make_folders(root: Path, paths: Iterable[str]) -> None:
    """Make these directories where nothing is; their parents are there, and no link is followed."""
    for path in paths:
        with ExitStack() as stack:
            try:
                os.mkdir(Path(path).name, dir_fd=_open_folder(stack, root, path))
            except FileExistsError:
                continue
            except OSError as error:
                raise UserError([problem_of(str(root / path), error)]) from error


def problem_of(where: str, error: OSError) -> Problem:
    """Say in a user's words what the system has said."""
    # No file of ours lies deeper than two folders.
    link = next((folder for folder in Path(where).parents[:2] if os.path.islink(folder)), None)
    if error.errno == errno.ENOTDIR and link:
        return Problem(where=str(link), what="can't be used", hint=A_LINK)
    reason = (error.strerror or str(error)).lower()
    return Problem(where=where, what=f"can't be used: {reason}", hint=HINTS.get(error.errno or 0, ""))


@dataclass(slots=True, kw_only=True)
class _Target:
    """One file on its way: staged beside its place, moved there, and back again where another one fails."""

    folder: int
    name: str
    data: bytes
    shared: bool = False
    before: bytes | None = None
    mode: int | None = None
    temporary: str = ""
    touched: bool = False
    # Locked for as long as the file is on its way: `_sweep` of another command leaves it alone.
    handle: int = -1

    def stage(self) -> None:
        own = False
        with suppress(FileNotFoundError):
            handle = os.open(self.name, REGULAR, dir_fd=self.folder)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(file.fileno())
                own = found.st_uid == _owner(self.folder)[0] and found.st_nlink == 1
                self.mode = stat.S_IMODE(found.st_mode)
                self.before = file.read()
        # What stands there already waits for no disk, unless another name or owner could change it.
        if self.before != self.data or not own:
            self._write(self.data)

    def place(self) -> None:
        if not self.temporary:
            return
        self.touched = True
        os.replace(self.temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        os.fsync(self.folder)

    def undo(self) -> None:
        with suppress(OSError):
            if self.touched and self.before is None:
                os.unlink(self.name, dir_fd=self.folder)
            elif self.touched and self.before is not None:
                self._write(self.before)
                os.replace(self.temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        if self.temporary:
            with suppress(OSError):
                os.unlink(self.temporary, dir_fd=self.folder)

    def release(self) -> None:
        """Let go of the file, which is in its place or gone."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def _write(self, data: bytes) -> None:
        self.release()
        self.temporary = f".{self.name}.{os.urandom(6).hex()}.tmp"
        with os.fdopen(os.open(self.temporary, NEW, 0o666, dir_fd=self.folder), "wb") as file:
            self.handle = os.dup(file.fileno())
            with suppress(OSError):  # not every file system has locks
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchown(file.fileno(), *_owner(self.folder))
            if self.mode is not None:
                os.fchmod(file.fileno(), self.mode)
            elif self.shared:
                _let_others(file.fileno(), READ)


def _owner(folder: int) -> tuple[int, int]:
    """Return whose a file in the folder is to be: ours, and with sudo theirs whose folder it is."""
    found = os.fstat(folder)
    return (found.st_uid, found.st_gid) if os.geteuid() == 0 else (os.geteuid(), -1)


def _sweep(folder: int, name: str) -> None:
    staged = re.compile(STAGED.format(re.escape(name)))
    for left in filter(staged.fullmatch, os.listdir(folder)):
        with suppress(OSError):
            _remove_leftover(folder, left)


def _remove_leftover(folder: int, name: str) -> None:
    """Remove a plain file that is ours and that nobody is writing; anything else of that name stays."""
    handle = os.open(name, REGULAR, dir_fd=folder)
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in {os.geteuid(), _owner(folder)[0]}:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(handle)


def _let_others(handle: int, rights: int) -> None:
    os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | rights)


def _make_folder(folder: Path) -> list[Path]:
    try:
        folder.mkdir()
    except FileExistsError:
        return []
    return [folder]


def _open_folder(stack: ExitStack, root: Path, path: str) -> int:
    """Open the directory that a file lies in; below the project's root no link is followed."""
    handle = os.open(root, DIRECTORY)
    stack.callback(os.close, handle)
    for part in Path(path).parts[:-1]:
        handle = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        stack.callback(os.close, handle)
    return handle
