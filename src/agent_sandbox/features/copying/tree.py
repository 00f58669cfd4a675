"""Send a file or directory over a stream, and receive one. Runs on both ends: standard library only.

A frame is a kind, a flag, a length, and that many bytes. There are frames for directories, files, their content, their
end, and what was left out, and none for links, devices, owners or paths: a name is one component. The agent controls
what the sandbox sends, so the receiver checks everything and counts what it takes.

Neither end follows a symbolic link, not even above the named path: the agent could have put it there. tar is no choice:
its readers take headers of any size before a filter sees them, and most of what it can say would have to be refused.
"""

import errno
import json
import os
import stat
import struct
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FRAME = struct.Struct(">BBI")
FOLDER, FILE, DATA, END, SKIPPED, FAILED = range(1, 7)
CHUNK = 1 << 16
LONGEST_NAME = 255
LONGEST_MESSAGE = 1_000
DEEPEST = 100
# How many of the skipped entries are named.
NAMED = 20
EXECUTABLE = 1
# The kinds of frames that can come, with the fewest and the most bytes: for the copy itself, in a directory, in a file.
ROOT = {FOLDER: (0, 0), FILE: (0, 0)}
ENTRY = {**dict.fromkeys((FOLDER, FILE, SKIPPED), (1, LONGEST_NAME)), END: (0, 0)}
CONTENT = {DATA: (1, CHUNK), END: (0, 0)}
# The other end of a copy, as this one calls it.
INSIDE = "in the sandbox"
TOO_EARLY = "it ended too early"
STOPPED = "stopped at the limit of"
# Why a sender leaves something out: the flag of a SKIPPED frame.
REASONS = ("", "symbolic links are not copied", "not a regular file or directory", "it cannot be read")
A_LINK, SPECIAL, UNREADABLE = range(1, 4)
PARENT = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe does not block.
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The end of a path that can only be a directory.
OF_DIRECTORY = ("/", "/.")
# They end the whole copy, not one entry.
FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


class RefusedError(Exception):
    """The copy cannot be made or completed: what is wrong, and with which path."""

    def __init__(self, what: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.what, self.where = what, where


class BrokenStreamError(Exception):
    """The other side violated the protocol."""


@dataclass(kw_only=True)
class Meter:
    """The amount copied so far, and its limits."""

    most_bytes: int
    most_entries: int
    size: int = 0
    entries: int = 0

    def count(self, data: bytes = b"") -> None:
        """Count an entry, or a part of a file; raise RefusedError beyond a limit."""
        self.size += len(data)
        self.entries += not data
        if self.size > self.most_bytes:
            raise RefusedError(f"{STOPPED} {self.most_bytes} bytes")
        if self.entries > self.most_entries:
            raise RefusedError(f"{STOPPED} {self.most_entries} files and directories")


@dataclass(kw_only=True)
class Copied:
    """A finished copy. `skipped` names the first entries that were not, with the reasons; `more` counts the others."""

    files: int = 0
    size: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    more: int = 0

    def skip(self, path: str, why: str) -> None:
        """Note an entry that is not copied."""
        if len(self.skipped) < NAMED:
            self.skipped.append((path, why))
        else:
            self.more += 1


@dataclass(frozen=True, kw_only=True)
class Place:
    """A name in an open directory. The name "." is the directory itself."""

    folder: int
    name: str
    path: str

    def look(self) -> "os.stat_result | None":
        """Return what is there, or None."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


def base_of(path: str) -> str:
    """Return the name that a copy gets in an existing directory; "." if only the content is copied.

    >>> base_of("/tmp/report/"), base_of("src/."), base_of("/")
    ('report', '.', '.')
    """
    parts = [part for part in path.split("/") if part]
    if parts[-1:] == [".."]:
        raise RefusedError("write the name of this directory", where=path)
    return parts[-1] if parts else "."


@contextmanager
def opened(path: str) -> "Iterator[Place]":
    """Open the directory of a path without following a link; raise RefusedError if that fails."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    # The last one is opened as a directory, too, if its name says that it is one.
    through = parts if parts[-1:] == [".."] else parts[:-1]
    with ExitStack() as stack:
        folder, seen = _open(stack, "/" if path.startswith("/") else ".", None, path), ""
        for part in through:
            seen = f"{seen}/{part}" if seen or path.startswith("/") else part
            folder = _open(stack, part, folder, seen)
        yield Place(folder=folder, name="." if through is parts or not parts else parts[-1], path=path)


def _open(stack: ExitStack, name: str, folder: "int | None", path: str) -> int:
    try:
        handle = os.open(name, PARENT, dir_fd=folder)
    except OSError as error:
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise RefusedError(_is_link(path), where=path) from None
        raise RefusedError(_reason(error), where=path) from error
    stack.callback(os.close, handle)
    return handle


def _is_link(path: str) -> str:
    return f"is a symbolic link, and links are not followed; it leads to {os.path.realpath(path)}"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


# Sending


def require_sendable(place: Place) -> None:
    """Raise RefusedError unless there is something to send."""
    found = place.look()
    if found is None:
        raise RefusedError("no such file or directory", where=place.path)
    if stat.S_ISLNK(found.st_mode):
        raise RefusedError(_is_link(place.path), where=place.path)
    if place.path.endswith(OF_DIRECTORY) and not stat.S_ISDIR(found.st_mode):
        raise RefusedError("not a directory", where=place.path)


def send(place: Place, out: BinaryIO, meter: Meter) -> None:
    """Send the file or directory at a place; raise RefusedError if it cannot be read."""
    require_sendable(place)
    if why := Sender(out, meter).entry(place.folder, place.name, ""):
        raise RefusedError(REASONS[why], where=place.path)
    out.flush()


def send_file(content: bytes, out: BinaryIO, meter: Meter) -> None:
    """Send a file with this content; raise RefusedError beyond a limit."""
    meter.count()
    meter.count(content)
    _frame(out, FILE)
    for start in range(0, len(content), CHUNK):
        _frame(out, DATA, content[start : start + CHUNK])
    _frame(out, END)
    out.flush()


def _frame(out: BinaryIO, kind: int, data: bytes = b"", flag: int = 0) -> None:
    out.write(FRAME.pack(kind, flag, len(data)) + data)


class Sender:
    """Write a file or directory to a stream as frames."""

    def __init__(self, out: BinaryIO, meter: Meter) -> None:
        self.out, self.meter, self.depth = out, meter, 0

    def entry(self, folder: int, name: str, sent: str) -> int:
        """Send an entry under the name `sent`; return 0, or why it is left out."""
        self.meter.count()
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                return A_LINK if stat.S_ISLNK(mode) else SPECIAL
            handle = os.open(name, DIRECTORY if stat.S_ISDIR(mode) else REGULAR, dir_fd=folder)
        except OSError as error:
            return A_LINK if error.errno == errno.ELOOP else UNREADABLE
        try:
            if stat.S_ISDIR(mode):
                return self._folder(handle, sent)
            mode = os.fstat(handle).st_mode
            return self._file(handle, sent, mode) if stat.S_ISREG(mode) else SPECIAL  # exchanged meanwhile
        finally:
            os.close(handle)

    def _folder(self, handle: int, sent: str) -> int:
        if self.depth >= DEEPEST:
            raise RefusedError(f"more than {DEEPEST} directories inside each other", where=sent)
        try:
            names = sorted(os.listdir(handle))
        except OSError:
            return UNREADABLE
        _frame(self.out, FOLDER, os.fsencode(sent))
        self.depth += 1
        for name in names:
            if why := self.entry(handle, name, name):
                _frame(self.out, SKIPPED, os.fsencode(name), why)
        self.depth -= 1
        _frame(self.out, END)
        return 0

    def _file(self, handle: int, sent: str, mode: int) -> int:
        _frame(self.out, FILE, os.fsencode(sent), EXECUTABLE if mode & stat.S_IXUSR else 0)
        while data := _read(handle, sent):
            self.meter.count(data)
            _frame(self.out, DATA, data)
        _frame(self.out, END)
        return 0


def _read(handle: int, sent: str) -> bytes:
    try:
        return os.read(handle, CHUNK)
    except OSError as error:
        raise RefusedError(_reason(error), where=sent) from error


# Receiving


def _nothing(_parts: "tuple[str, ...]") -> str:
    return ""


class Receiver:
    """Write the entries of a stream to a place, by the rules of `cp`.

    An existing directory gets the copy under the name `base`, or its content if that is ".". Files are replaced in one
    step and keep their mode. `refuse` gets the path of an entry below the named one, and returns why it is not written.
    """

    def __init__(
        self, place: Place, base: str, meter: Meter, refuse: "Callable[[tuple[str, ...]], str]" = _nothing
    ) -> None:
        self.place, self.base, self.meter, self.refuse = place, base, meter, refuse
        self.copied = Copied()
        self.parts: list[str] = []
        # The open directories; None for one that is not written.
        self.folders: list[int | None] = []

    def receive(self, stream: BinaryIO) -> Copied:
        """Receive one file or directory; raise RefusedError or BrokenStreamError."""
        with ExitStack() as stack:
            stack.callback(self._close)
            kind, flag, _ = _next(stream, ROOT)
            self._take(stream, kind, flag, *self._root(stack, is_folder=kind == FOLDER))
            while self.folders:
                kind, flag, data = _next(stream, ENTRY)
                if kind == END:
                    self._leave()
                elif kind == SKIPPED:
                    self._skip_sent(_name(data), flag)
                else:
                    self._child(stream, kind, flag, _name(data))
        return self.copied

    @property
    def _path(self) -> str:
        return "/".join((self.place.path, *self.parts))

    def _root(self, stack: ExitStack, *, is_folder: bool) -> "tuple[int, str]":
        """Return the directory and the name for the copy itself."""
        place, found = self.place, self.place.look()
        if found is None:
            if place.path.endswith(OF_DIRECTORY) and not is_folder:
                raise RefusedError("no such directory", where=place.path)
            return place.folder, place.name
        if stat.S_ISLNK(found.st_mode):
            raise RefusedError(_is_link(place.path), where=place.path)
        if stat.S_ISDIR(found.st_mode):
            return _open(stack, place.name, place.folder, place.path), self.base
        if is_folder or place.path.endswith(OF_DIRECTORY):
            raise RefusedError("not a directory", where=place.path)
        return place.folder, place.name

    def _child(self, stream: BinaryIO, kind: int, flag: int, name: str) -> None:
        self.parts.append(name)
        folder = self.folders[-1]
        why = "" if folder is None else self.refuse(tuple(self.parts))
        if why:
            self.copied.skip("/".join(self.parts), why)
        self._take(stream, kind, flag, None if why else folder, name)
        if kind == FILE:
            self.parts.pop()

    def _take(self, stream: BinaryIO, kind: int, flag: int, folder: "int | None", name: str) -> None:
        """Receive a file, or begin a directory."""
        self.meter.count()
        try:
            if kind == FOLDER:
                self._enter(folder, name)
            else:
                self._file(stream, folder, name, executable=bool(flag & EXECUTABLE))
        except OSError as error:
            raise RefusedError(_reason(error), where=self._path) from error

    def _enter(self, folder: "int | None", name: str) -> None:
        if len(self.folders) >= DEEPEST:
            raise BrokenStreamError(f"more than {DEEPEST} directories inside each other")
        self.folders.append(None)
        if folder is not None:
            with self._reported():
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                    _give_to_owner(folder, name)
                self.folders[-1] = os.open(name, DIRECTORY, dir_fd=folder)

    def _leave(self) -> None:
        folder = self.folders.pop()
        if folder is not None:
            os.close(folder)
        if self.parts:
            self.parts.pop()

    def _close(self) -> None:
        for folder in self.folders:
            if folder is not None:
                os.close(folder)

    def _file(self, stream: BinaryIO, folder: "int | None", name: str, *, executable: bool) -> None:
        staged = None
        if folder is not None:
            with self._reported():
                staged = Staged(folder, name, executable=executable)
        try:
            while data := _next(stream, CONTENT)[2]:
                self.meter.count(data)
                if staged:
                    staged.write(data)
            if staged:
                staged.place()
                self.copied.files += 1
                self.copied.size += staged.size
        finally:
            if staged:
                staged.close()

    @contextmanager
    def _reported(self) -> "Iterator[None]":
        """Note an entry that cannot be written; raise for the copy itself, and if no other could be written."""
        try:
            yield
        except OSError as error:
            why = "a symbolic link is there" if error.errno == errno.ELOOP else _reason(error)
            if error.errno in FATAL or not self.parts:
                raise RefusedError(why, where=self._path) from error
            self.copied.skip("/".join(self.parts), why)

    def _skip_sent(self, name: str, flag: int) -> None:
        if not 0 < flag < len(REASONS):
            raise BrokenStreamError("an unknown reason")
        self.meter.count()
        self.copied.skip("/".join((*self.parts, name)), REASONS[flag])


class Staged:
    """A new file beside the one that it will replace."""

    def __init__(self, folder: int, name: str, *, executable: bool) -> None:
        mode = _mode_of(folder, name)
        self.folder, self.name, self.staged = folder, name, f".agent-sandbox.{os.urandom(8).hex()}.tmp"
        self.size = 0
        self.handle = os.open(self.staged, NEW, 0o777 if executable else 0o666, dir_fd=folder)
        if mode is not None:
            os.fchmod(self.handle, mode)
        _give_to_owner(folder, self.staged)

    def write(self, data: bytes) -> None:
        """Write all of it."""
        self.size += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self.handle, view) :]

    def place(self) -> None:
        """Rename the file to its target."""
        os.replace(self.staged, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        self.staged = ""

    def close(self) -> None:
        """Close the file, and remove it unless it was renamed."""
        os.close(self.handle)
        if self.staged:
            with suppress(OSError):
                os.unlink(self.staged, dir_fd=self.folder)


def _next(stream: BinaryIO, allowed: "Mapping[int, tuple[int, int]]") -> "tuple[int, int, bytes]":
    """Return the next frame; `allowed` has the fewest and the most bytes of each kind."""
    kind, flag, length = FRAME.unpack(_exactly(stream, FRAME.size))
    least, most = (0, LONGEST_MESSAGE) if kind == FAILED else allowed.get(kind, (1, 0))
    if not least <= length <= most:
        raise BrokenStreamError(f"frame {kind} of {length} bytes is not allowed here")
    data = _exactly(stream, length)
    if kind == FAILED:
        raise RefusedError(data.decode("utf-8", "replace"), where=INSIDE)
    return kind, flag, data


def _exactly(stream: BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise BrokenStreamError(TOO_EARLY)
    return data


def _name(data: bytes) -> str:
    if data in (b"", b".", b"..") or b"/" in data or b"\0" in data:
        raise BrokenStreamError("an invalid name")
    return os.fsdecode(data)


def _mode_of(folder: int, name: str) -> "int | None":
    """Return the mode of the file to replace, or None if there is none; raise OSError for anything else."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "")
    if not stat.S_ISREG(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory" if stat.S_ISDIR(mode) else "not a regular file")
    return stat.S_IMODE(mode) & 0o777


def _give_to_owner(folder: int, name: str) -> None:
    """Under sudo, give a new entry to the owner of the directory that it is in."""
    if os.geteuid() == 0:
        owner = os.fstat(folder)
        with suppress(PermissionError):  # not every file system has owners
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


# The end in the sandbox


def _inside(way: str, path: str, base: str, most_bytes: str, most_entries: str) -> None:
    """Run in the sandbox: send to stdout, or receive from stdin and print the result as JSON."""
    meter = Meter(most_bytes=int(most_bytes), most_entries=int(most_entries))
    out = sys.stdout.buffer
    if way == "send":
        try:
            with opened(path) as place:
                send(place, out, meter)
        except RefusedError as error:
            _frame(out, FAILED, str(error).encode("utf-8", "replace")[:LONGEST_MESSAGE])
        out.flush()
        return
    try:
        with opened(path) as place:
            result = asdict(Receiver(place, base, meter).receive(sys.stdin.buffer))
    except (RefusedError, BrokenStreamError) as error:
        result = {"error": str(error)}
    out.write(json.dumps(result).encode())


if __name__ == "__main__":
    _inside(*sys.argv[1:])
