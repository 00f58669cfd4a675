"""Write a file that is never read incomplete: stage it beside its target, then rename it.

It works through a directory handle, so replacing the directory meanwhile has no effect. The temporary file is
new, and no link is followed.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# The name of a staged file, as a pattern: `.NAME.HEX.tmp`.
STAGED = r"\.{}\.[0-9a-f]{{12}}\.tmp"


def write_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write or replace a file, durably and with exactly this mode. Raises OSError."""
    folder = os.open(path.parent, FOLDER)
    try:
        replace_file(folder, path.name, data, mode=mode)
    finally:
        os.close(folder)


def replace_file(folder: int, name: str, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write or replace a file in an open directory, with exactly this mode. Raises OSError."""
    staged = stage(folder, name, data, prepare=lambda handle: os.fchmod(handle, mode), durable=durable)
    try:
        place(folder, staged, name)
    except BaseException:
        _discard(folder, staged)
        raise


def stage(  # noqa: PLR0913 - the file, and how to write it
    folder: int, name: str, data: bytes, *, prepare: Callable[[int], None], mode: int = 0o600, durable: bool = True
) -> str:
    """Write a new file beside `name` and return its name.

    `prepare` gets the handle of the empty file. `durable` waits until the disk has the content.
    """
    staged = f".{name}.{os.urandom(6).hex()}.tmp"
    handle = os.open(staged, NEW, mode, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            prepare(handle)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(handle)
    except BaseException:
        _discard(folder, staged)
        raise
    return staged


def place(folder: int, staged: str, name: str) -> None:
    """Rename a staged file to its name, atomically."""
    os.replace(staged, name, src_dir_fd=folder, dst_dir_fd=folder)


def _discard(folder: int, staged: str) -> None:
    with suppress(OSError):
        os.unlink(staged, dir_fd=folder)
