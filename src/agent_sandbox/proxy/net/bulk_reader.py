"""Read everything that a stream has buffered.

mitmproxy reads 65,535 bytes at a time, but asyncio buffers four times as much. The cost of a read is passing it through
all layers, whatever its size: that was half of the cost of a download.
"""

import asyncio
from collections.abc import Callable

LARGE_READ = 262_144  # what asyncio reads from a socket at once
# For HTTP/2, which can have a frame in every nine bytes: parsing twenty thousand of them blocked all other connections
# for seconds. Data frames have 16 KiB.
SMALL_READ = 32_768
# For a compressed response that is searched for secrets: it may become a hundred times as large.
COMPRESSED_READ = 4_096


class BulkReader:
    """A reader with the part of the StreamReader interface that mitmproxy uses."""

    def __init__(self, reader: asyncio.StreamReader, *, on_reset: Callable[[], None] = lambda: None) -> None:
        self._reader = reader
        self._on_reset = on_reset
        self.read_size: Callable[[], int] = lambda: LARGE_READ

    async def read(self, _: int = -1) -> bytes:
        """Read what is available, ignoring the requested size. Empty at the end of the stream."""
        size = self.read_size()
        if size < LARGE_READ:
            await asyncio.sleep(0)  # reading buffered data does not yield: let other tasks run
        try:
            return await self._reader.read(size)
        except ConnectionResetError:
            self._on_reset()  # mitmproxy treats a reset like a normal end
            raise
