"""A stream pair without a socket: a test feeds the reader, and the writer records."""

import asyncio
from typing import override

from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader


class MemoryTransport(asyncio.Transport):
    """Records the written data and how it ended. Once closed for writing, it reads nothing more either."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__({"peername": ("10.0.0.3", 5), "sockname": ("10.0.0.2", 80)})
        self.reader = reader
        self.written = b""
        self.ended = ""
        self.ends_reading = True
        self.lingers = False  # closed, and still something to send
        self.protocol: asyncio.Protocol | None = None
        self.loop = asyncio.get_running_loop()
        self.unread: list[int] = []  # what `get_write_buffer_size` says, one after the other; nothing then

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    @override
    def get_write_buffer_size(self) -> int:
        return self.unread.pop(0) if self.unread else 0

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
        if not self.lingers:
            self._end("closed")

    @override
    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if self.ended:
            return
        self.ended = how
        if self.protocol and not self.loop.is_closed():
            self.loop.call_soon(self.protocol.connection_lost, None)


OPENED: list[asyncio.StreamWriter] = []


def close_all() -> None:
    """Close all streams in memory."""
    for writer in OPENED:
        writer.transport.abort()
    OPENED.clear()


def memory_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, MemoryTransport]:
    """Return both streams of a connection, and their transport. A fixture of the proxy's tests closes them."""
    reader = asyncio.StreamReader()
    transport = MemoryTransport(reader)
    protocol = asyncio.StreamReaderProtocol(reader)
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    OPENED.append(writer)
    return reader, writer, transport


def lead_of(*pieces: bytes, end: bool = True) -> PeekableReader:
    """Return a connection on which the pieces come one after the other."""
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        if end:
            reader.feed_eof()

    lead = PeekableReader(reader, Place(Held()))
    lead.feeding = asyncio.create_task(feed())  # type: ignore[attr-defined] # the loop keeps no task alive
    return lead
