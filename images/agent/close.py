"""Remove setuid and setgid bits and file capabilities from an image that is being built."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress

CAPABILITY = "security.capability"


def files(root: str) -> Iterator[str]:
    """Yield all regular files on the file system of `root`."""
    device = os.stat(root).st_dev
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if os.lstat(os.path.join(folder, name)).st_dev == device]
        yield from (os.path.join(folder, name) for name in names)


def close(path: str) -> None:
    """Take away what would let a program run with more than its user's rights."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        return
    if found.st_mode & (stat.S_ISUID | stat.S_ISGID):
        os.chmod(path, stat.S_IMODE(found.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
    with suppress(OSError):  # it has none, or the file system knows none
        os.removexattr(path, CAPABILITY)


if __name__ == "__main__":
    for name in files(sys.argv[1] if len(sys.argv) > 1 else "/"):
        close(name)
