"""Read from a stream all that it has.

mitmproxy asks for 65,535 bytes at a time, of which asyncio has four times as many at hand. Each read goes the way
through all layers, and that way, not the size of what goes it, made up half of the cost of a download.
"""

import asyncio
from collections.abc import Callable

GULP = 262_144  # what asyncio takes from a socket at once


class Gulps:
    """Has as much of a StreamReader as mitmproxy uses."""

    def __init__(self, reader: asyncio.StreamReader, *, on_reset: Callable[[], None] = lambda: None) -> None:
        self._reader = reader
        self._on_reset = on_reset

    async def read(self, _: int = -1) -> bytes:
        """Read what there is, however little was asked for. No bytes at the end of the stream."""
        try:
            return await self._reader.read(GULP)
        except ConnectionResetError:
            self._on_reset()  # mitmproxy takes it for an end like any other
            raise
