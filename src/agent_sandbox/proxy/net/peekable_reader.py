"""A stream whose first bytes are read, judged, and read again by whoever the connection is handed to."""

import asyncio
from typing import override

from agent_sandbox.proxy.net.bulk_reader import BulkReader
from agent_sandbox.proxy.net.connection_limit import Place

CHUNK = 65_536


class PeekableReader(BulkReader):
    """Reads ahead without taking away, and tells the connection's place whenever something came."""

    def __init__(self, reader: asyncio.StreamReader, place: Place) -> None:
        super().__init__(reader)
        self.place = place
        self._ahead = b""

    @property
    def ahead(self) -> bytes:
        """What was read and not taken."""
        return self._ahead

    async def more(self) -> bool:
        """Read some more ahead. False at the end of the stream."""
        data = await self._reader.read(CHUNK)
        self.place.used()
        self._ahead += data
        return bool(data)

    def take(self, count: int) -> bytes:
        """Take `count` bytes of what was read ahead."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken

    @override
    async def read(self, _: int = -1) -> bytes:
        """Read what there is; what was read ahead comes first."""
        if self._ahead:
            # Tasks start eagerly; mitmproxy counts on a read that lets the starter of the task go on first.
            await asyncio.sleep(0)
            return self.take(len(self._ahead))
        data = await super().read()
        self.place.used()
        return data
