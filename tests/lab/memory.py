"""A stream pair without a socket: what is written is kept, what is read is fed."""

from __future__ import annotations

import asyncio
from typing import override

from agent_sandbox.proxy.lead import Lead


class MemoryTransport(asyncio.Transport):
    """Keeps what is written, and how it ended. Closed for writing, it reads no more either."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__({"peername": ("10.0.0.3", 5), "sockname": ("10.0.0.2", 80)})
        self.reader = reader
        self.written = b""
        self.ended = ""
        self.ends_reading = True

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    @override
    def write_eof(self) -> None:
        if self.ends_reading and not self.reader.at_eof():
            self.reader.feed_eof()

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def is_closing(self) -> bool:
        return bool(self.ended)

    @override
    def close(self) -> None:
        self.ended = self.ended or "closed"

    @override
    def abort(self) -> None:
        self.ended = "aborted"


def memory_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, MemoryTransport]:
    """Return both streams of a connection, and what lies under them."""
    reader = asyncio.StreamReader()
    transport = MemoryTransport(reader)
    protocol = asyncio.StreamReaderProtocol(reader)
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop()), transport


def lead_of(*pieces: bytes, end: bool = True) -> Lead:
    """Return a connection on which the pieces come one after the other."""
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        if end:
            reader.feed_eof()

    lead = Lead(reader, lambda: None)
    lead.feeding = asyncio.create_task(feed())  # type: ignore[attr-defined] # the loop keeps no task alive
    return lead
