"""`settings.reload: watch`: look at the policy's files each second, and reload when they are others than before.

By asking, not by the kernel's notices: those do not cross the mounts of every engine, and follow a file that an editor
has already replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

EVERY_SECONDS = 1.0

type Identity = tuple[tuple[int, ...] | None, ...]


def identity(paths: Sequence[Path]) -> Identity:
    """Return what changes whenever one of the files is written, replaced, made or removed."""
    return tuple(map(_identity, paths))


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


async def watch(
    look: Callable[[], Identity],
    reload: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[], bool],
    every: float = EVERY_SECONDS,
) -> None:
    """Reload, while it is `wanted`, once the files have changed and then stayed the same for a moment."""
    taken = before = look()
    while True:
        await asyncio.sleep(every)
        if not wanted():
            taken = before = look()
            continue
        seen = look()
        if before == seen != taken:
            taken = seen
            await reload()
        before = seen
