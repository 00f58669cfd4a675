"""Read from a stream all that it has.

mitmproxy asks for 65,535 bytes at a time, of which asyncio has four times as many at hand. Each read goes the way
through all layers, and that way, not the size of what goes it, made up half of the cost of a download.
"""

import asyncio
from collections.abc import Callable

GULP = 262_144  # what asyncio takes from a socket at once
# Of HTTP/2, which can have a frame in every nine bytes: twenty thousand of them took seconds in which nobody else was
# served, and one that is to carry something has 16 KiB.
SIP = 32_768


class BulkReader:
    """Has as much of a StreamReader as mitmproxy uses."""

    def __init__(self, reader: asyncio.StreamReader, *, on_reset: Callable[[], None] = lambda: None) -> None:
        self._reader = reader
        self._on_reset = on_reset
        self.in_sips: Callable[[], bool] = lambda: False

    async def read(self, _: int = -1) -> bytes:
        """Read what there is, however little was asked for. No bytes at the end of the stream."""
        size = GULP
        if self.in_sips():
            size = SIP
            await asyncio.sleep(0)  # the rest of a gulp is read without a pause: others come between
        try:
            return await self._reader.read(size)
        except ConnectionResetError:
            self._on_reset()  # mitmproxy takes it for an end like any other
            raise
