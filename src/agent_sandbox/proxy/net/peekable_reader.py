"""A stream reader that can look at the first bytes before they are read."""

import asyncio
from typing import override

from agent_sandbox.proxy.net.bulk_reader import BulkReader
from agent_sandbox.proxy.net.connection_limit import Place

CHUNK = 65_536


class PeekableReader(BulkReader):
    """Reads ahead without consuming, and reports each read to the connection limit."""

    def __init__(self, reader: asyncio.StreamReader, place: Place) -> None:
        super().__init__(reader)
        self.place = place
        self._ahead = b""

    @property
    def ahead(self) -> bytes:
        """The bytes that were read ahead and not taken yet."""
        return self._ahead

    async def more(self) -> bool:
        """Read more ahead. Return False at the end of the stream."""
        data = await self._reader.read(CHUNK)
        self.place.used()
        self._ahead += data
        return bool(data)

    def take(self, count: int) -> bytes:
        """Remove and return `count` bytes that were read ahead."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken

    def release(self) -> tuple[asyncio.StreamReader, bytes]:
        """Return the stream and the data that was read ahead, to code that reads on by itself."""
        return self._reader, self.take(len(self._ahead))

    @override
    async def read(self, _: int = -1) -> bytes:
        """Read what is available, beginning with what was read ahead."""
        if self._ahead:
            await asyncio.sleep(0)  # mitmproxy expects a read to yield to the task that started it
            return self.take(len(self._ahead))
        data = await super().read()
        self.place.used()
        return data
