"""Close a connection gracefully while the other side still reads, then by force."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from math import inf
from termios import TIOCOUTQ

# How much a client may go on sending after its connection was refused, so that it still reads why.
LINGER_BYTES = 1_048_576


async def linger_close(writer: asyncio.StreamWriter, *, seconds: float) -> None:
    """Close, and wait until that is done. If the other side reads nothing for `seconds`, drop the rest.

    A transport alone would wait forever for a client that never reads, and keep the socket and up to 1 MiB.
    """
    writer.close()
    over = asyncio.create_task(closed(writer))
    try:
        left = inf
        while not over.done() and (unread := _unread(writer)) < left:
            left = unread
            await asyncio.wait({over}, timeout=seconds)
    finally:
        if not over.done():
            writer.transport.abort()
    await over


def _unread(writer: asyncio.StreamWriter) -> int:
    # Include the kernel's buffer: it takes more from us only after about a third of it (1 MiB) was read.
    raw = writer.get_extra_info("socket")
    held = ioctl(raw, TIOCOUTQ, bytes(4)) if raw is not None and raw.fileno() >= 0 else b""
    return writer.transport.get_write_buffer_size() + int.from_bytes(held, sys.byteorder)


@contextmanager
def closing_with(writer: asyncio.StreamWriter, end: Callable[[], None]) -> Iterator[None]:
    """Call `end` if the connection closes within the block: code that waits for the other side would not notice."""

    async def watch() -> None:
        await closed(writer)
        end()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def closed(writer: asyncio.StreamWriter) -> None:
    """Wait until the connection is closed, by either side."""
    # Shielded, because cancelling one waiter would cancel the future that all waiters share.
    await asyncio.shield(_closed(writer))


async def _closed(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.wait_closed()
