#!/usr/bin/python3 -I
"""Mount git's settings read-only again in a running agent container, without ending a process in it.

Runs as root in a separate container that shares the agent's process namespace. Arguments: the SHA-256 of the accepted
content and the path in the workspace, or an absolute one, for each file. After `hide:`, an empty file is mounted.

The agent could write the file until now, and may still have it open. So the mount goes over a new file with the same
content, made while all processes of the agent are frozen: none of them can have opened that one.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

WORKSPACE = "/workspace"
HIDE, NOTHING = "hide:", "/dev/null"
CGROUPS = Path("/cgroup")  # where the Docker host's are mounted
AGENT = Path("/proc/1")
MOST_BYTES = 64 << 10
SECONDS_TO_FREEZE = 10.0  # a busy machine takes its time
# `docker run` passes them on. None of them may end this program while the agent is frozen.
CATCHABLE = tuple(getattr(signal, f"SIG{name}") for name in ("HUP", "INT", "QUIT", "TERM", "ALRM", "USR1", "USR2"))

# System calls that Python has no function for; the numbers are the same on amd64 and arm64.
OPEN_TREE, MOVE_MOUNT, OPENAT2, MOUNT_SETATTR = 428, 429, 437, 442
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
OPEN_TREE_CLONE = 1
MOVE_MOUNT_EMPTY_PATHS = 0x04 | 0x40
MOUNT_ATTR_RDONLY = 1
RESOLVE_NO_LINKS = 0x02 | 0x04
CLONE_NEWNS = 0x20000

libc = ctypes.CDLL(None, use_errno=True)


class OpenHow(ctypes.Structure):
    """The argument of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class MountAttr(ctypes.Structure):
    """The argument of mount_setattr(2)."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd"))


class Freezer(NamedTuple):
    """The files that freeze a cgroup and report it, open; and what they say."""

    switch: int
    report: int
    freeze: bytes
    thaw: bytes
    frozen: bytes


def call(number: int, *arguments: object) -> int:
    """Make a system call; raise OSError."""
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def enter_agent() -> None:
    """Enter the agent container's mount namespace."""
    if libc.setns(os.open(AGENT / "ns" / "mnt", os.O_RDONLY | os.O_CLOEXEC), CLONE_NEWNS) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def open_folder(path: str) -> int:
    """Open the directory of a file, by its path in the workspace or an absolute one, without following a link."""
    how = OpenHow(os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, RESOLVE_NO_LINKS)
    folder = ctypes.c_char_p(os.fsencode(os.path.dirname(os.path.join(WORKSPACE, path))))
    return call(OPENAT2, AT_FDCWD, folder, ctypes.byref(how), ctypes.sizeof(how))


def renew(folder: int, name: str, digest: str) -> int:
    """Replace a file with a new one of the accepted content, by git's own lock file; return a handle for mounting."""
    with os.fdopen(
        os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder), "rb"
    ) as old:
        found, data = os.fstat(old.fileno()), old.read(MOST_BYTES + 1)
    if not stat.S_ISREG(found.st_mode) or hashlib.sha256(data).hexdigest() != digest:
        raise OSError(errno.ESTALE, "the file changed meanwhile")
    lock = f"{name}.lock"
    handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as new:
            new.write(data)
            new.flush()
            os.fchown(handle, found.st_uid, found.st_gid)
            os.fchmod(handle, stat.S_IMODE(found.st_mode) & 0o777)
            os.fsync(handle)
        os.rename(lock, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(lock, dir_fd=folder)
        raise
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def cover(place: int, source: int) -> None:
    """Mount a file over another one, or over itself; the mount is read-only before anyone sees it."""
    here = ctypes.c_char_p(b"")
    tree = call(OPEN_TREE, source, here, OPEN_TREE_CLONE | os.O_CLOEXEC | AT_EMPTY_PATH)
    attr = MountAttr(attr_set=MOUNT_ATTR_RDONLY)
    call(MOUNT_SETATTR, tree, here, AT_EMPTY_PATH, ctypes.byref(attr), ctypes.sizeof(attr))
    call(MOVE_MOUNT, tree, here, place, here, MOVE_MOUNT_EMPTY_PATHS)


def open_freezer(cgroups: Path = CGROUPS, agent: Path = AGENT) -> Freezer:
    """Return the freezer of the agent's cgroup, of either version."""
    for line in (agent / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        place = cgroups / path.lstrip("/")
        if not controllers and (place / "cgroup.freeze").exists():
            switch, report = place / "cgroup.freeze", place / "cgroup.events"
            return Freezer(os.open(switch, os.O_WRONLY), os.open(report, os.O_RDONLY), b"1", b"0", b"frozen 1")
        if "freezer" in controllers.split(","):
            switch = cgroups / "freezer" / path.lstrip("/") / "freezer.state"
            return Freezer(os.open(switch, os.O_WRONLY), os.open(switch, os.O_RDONLY), b"FROZEN", b"THAWED", b"FROZEN")
    raise OSError(errno.ENOENT, "the agent's cgroup cannot be frozen")


def is_locked(handle: int) -> bool:
    """Lock a file unless another program has; return whether it is locked now. It stays so until this program ends."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for(done: Callable[[], bool], otherwise: str) -> None:
    """Wait until something is done; raise OSError if it takes too long."""
    end = time.monotonic() + SECONDS_TO_FREEZE
    while not done():
        if time.monotonic() > end:
            raise OSError(errno.ETIMEDOUT, otherwise)
        time.sleep(0.001)


@contextmanager
def frozen(freezer: Freezer) -> Iterator[None]:
    """Keep all processes of the agent from running."""
    # Another one of these programs would thaw the agent too early.
    wait_for(lambda: is_locked(freezer.switch), "another command is protecting files in the container")
    try:
        os.write(freezer.switch, freezer.freeze)
        wait_for(
            lambda: freezer.frozen in os.pread(freezer.report, 4096, 0).splitlines(),
            "the agent's processes could not be frozen",
        )
        yield
    finally:
        os.write(freezer.switch, freezer.thaw)


def main(arguments: list[str]) -> None:
    """Protect each file, all of them while the agent is frozen once. Ctrl-C must not end it before the agent thaws."""
    for number in CATCHABLE:
        signal.signal(number, signal.SIG_IGN)
    freezer = open_freezer()
    enter_agent()
    with frozen(freezer):
        for digest, path in zip(arguments[::2], arguments[1::2], strict=True):
            place = renew(open_folder(path), os.path.basename(path), digest.removeprefix(HIDE))
            cover(place, os.open(NOTHING, os.O_PATH | os.O_CLOEXEC) if digest.startswith(HIDE) else place)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"cannot protect the file in the running container: {error.strerror}")
