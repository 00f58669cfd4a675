"""The body of a message, read from a stream piece by piece."""

import asyncio
import time

import h11
from h11._readers import ContentLengthReader, Http10Reader

from agent_sandbox.proxy.connection.byte_stream import ByteStream
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler
from agent_sandbox.proxy.wire.http1_chunks import ChunkReader, TrailerDropper
from agent_sandbox.proxy.wire.http1_head import Body as Size
from agent_sandbox.proxy.wire.http1_head import BodyEnd
from agent_sandbox.proxy.wire.message import Fields, value_of

LAST_CHUNK = b"0\r\n\r\n"
RESET = "the connection was reset"
Reader = ChunkReader | TrailerDropper | ContentLengthReader | Http10Reader


class Body:
    """A body that arrives on `stream`. `is_done`: its end was read. `was_broken`: reading it failed.

    `took`: the seconds of work for the last piece. Thousands of tiny chunks may arrive at once.
    """

    def __init__(self, stream: ByteStream, reader: Reader | None) -> None:
        self._stream = stream
        self._reader = reader
        self.is_done = self.is_empty = reader is None
        self.was_broken = False
        self.took = 0.0

    def take(self) -> bytes | None:
        """Return the data that has arrived: None if none has, empty at the end. Raises `h11.ProtocolError`."""
        if self._reader is None or self.is_done:
            return b""
        began = time.monotonic()
        piece = self._reader(self._stream.buffer)
        self.took = time.monotonic() - began
        if isinstance(piece, h11.Data):
            return bytes(piece.data)
        self.is_done = piece is not None
        return b"" if self.is_done else None

    async def read(self) -> bytes:
        """Return the next piece, empty at the end. Raises `h11.ProtocolError`."""
        try:
            return await self._read()
        except h11.ProtocolError:
            self.was_broken = True
            raise

    async def discard(self, turns: FairScheduler) -> None:
        """Read the rest. Raises `h11.ProtocolError`."""
        while await self.read():
            if seconds := turns.wait(self.took):
                await asyncio.sleep(seconds)

    async def _read(self) -> bytes:
        while (piece := self.take()) is None and self._reader is not None:
            if not await self._stream.more():
                if self._stream.is_reset:
                    raise h11.RemoteProtocolError(RESET)
                self._reader.read_eof()  # raises, unless the end of the connection ends the body
                self.is_done = True
        return piece or b""


def request_body(stream: ByteStream, size: Size, *, line_bytes: int) -> Body:
    """Return the body of a request."""
    if size == 0:
        return Body(stream, None)
    return Body(stream, ContentLengthReader(size) if isinstance(size, int) else ChunkReader(line_bytes=line_bytes))


def response_body(stream: ByteStream, size: Size) -> Body:
    """Return the body of a response. The trailers of a chunked one are dropped."""
    match size:
        case 0:
            return Body(stream, None)
        case BodyEnd.CHUNKED:
            return Body(stream, TrailerDropper())
        case BodyEnd.CLOSE:
            return Body(stream, Http10Reader())
        case length:
            return Body(stream, ContentLengthReader(length))


def is_chunked(fields: Fields) -> bool:
    """Return whether a message with these fields is sent in chunks."""
    return "chunked" in value_of(fields, b"transfer-encoding").lower()


def head_bytes(first: bytes, fields: Fields) -> bytes:
    """Return the bytes of a head."""
    return b"%s\r\n%s\r\n" % (first, b"".join([b"%s: %s\r\n" % field for field in fields]))


def chunk(data: bytes) -> bytes:
    """Return `data` as one chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)
