"""A stream whose first bytes are read, judged, and read again by whoever the connection is handed to."""

import asyncio
from collections.abc import Callable

CHUNK = 65_536


class Lead:
    """Reads ahead without taking away, and says whenever something came."""

    def __init__(self, reader: asyncio.StreamReader, used: Callable[[], None]) -> None:
        self._reader = reader
        self._used = used
        self._ahead = b""

    @property
    def ahead(self) -> bytes:
        """What was read and not taken."""
        return self._ahead

    async def more(self) -> bool:
        """Read some more ahead. False at the end of the stream."""
        data = await self._reader.read(CHUNK)
        self._used()
        self._ahead += data
        return bool(data)

    def take(self, count: int) -> bytes:
        """Take `count` bytes of what was read ahead."""
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken

    async def read(self, count: int = -1) -> bytes:
        """Read as a StreamReader does; what was read ahead comes first."""
        if self._ahead:
            # Tasks start eagerly; mitmproxy counts on a read that lets the starter of the task go on first.
            await asyncio.sleep(0)
            return self.take(count if count > 0 else len(self._ahead))
        data = await self._reader.read(count)
        self._used()
        return data
