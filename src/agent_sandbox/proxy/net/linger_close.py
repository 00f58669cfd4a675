"""How a connection is let go: in good order while the other side takes what is left for it, then in any case."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from math import inf
from termios import TIOCOUTQ


async def linger_close(writer: asyncio.StreamWriter, *, seconds: float) -> None:
    """Close, and return when that is done. What is left unread for `seconds` is dropped.

    A transport alone would wait for ever, and hold the socket and up to a MiB, for a client that never reads.
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
    # With what the kernel holds: of that it takes some more from us only when a third, a MiB or so, was read.
    raw = writer.get_extra_info("socket")
    held = ioctl(raw, TIOCOUTQ, bytes(4)) if raw is not None and raw.fileno() >= 0 else b""
    return writer.transport.get_write_buffer_size() + int.from_bytes(held, sys.byteorder)


@contextmanager
def closing_with(writer: asyncio.StreamWriter, end: Callable[[], None]) -> Iterator[None]:
    """Call `end` if the connection is over within the block: who waits for its other side would not notice."""

    async def watch() -> None:
        await closed(writer)
        end()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def closed(writer: asyncio.StreamWriter) -> None:
    """Return when nothing is left of the connection, whoever ended it."""
    # Shielded: the one future that all wait for is cancelled with the first of them.
    await asyncio.shield(_closed(writer))


async def _closed(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.wait_closed()
