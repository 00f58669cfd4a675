"""One side of a connection: bytes in and out, with or without TLS, with back-pressure in both directions."""

import asyncio
import os
import select
import socket
import struct
import sys
from collections.abc import Buffer, Callable
from contextlib import suppress
from typing import Any, override

from OpenSSL import SSL

from agent_sandbox.proxy.net.bulk_reader import LARGE_READ, SMALL_READ
from agent_sandbox.proxy.net.linger_close import LINGER_BYTES
from agent_sandbox.proxy.tls.failure import why_failed
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer

RECORD = 16_384
HELD_BYTES = 65_536  # unread; beyond it, nothing more is read from the socket
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
# All streams read into the same buffer: each takes its data out before anything else runs.
INCOMING = memoryview(bytearray(LARGE_READ))
TLS_HEADER = 5  # type, version, and the length of the rest in two bytes


class TlsRecords:
    """Follows the records of one direction: OpenSSL does not tell whether it holds a part of one.

    `is_at_end`: the data so far ends where a record ends.
    """

    def __init__(self) -> None:
        self._begun = b""  # a header that has arrived in part
        self._left = 0  # bytes of the current record that have not arrived

    @property
    def is_at_end(self) -> bool:
        """Whether no record has arrived in part."""
        return not (self._begun or self._left)

    def read(self, data: bytes) -> int:
        """Follow `data`; return how many records end in it."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        size, at = len(data), self._left
        ended = int(0 < at <= size)
        while at + TLS_HEADER <= size:
            at += TLS_HEADER + (data[at + 3] << 8 | data[at + 4])
            ended += at <= size
        if at < size:
            self._begun, self._left = data[at:], 0
        else:
            self._left = at - size
        return ended


def do_nothing() -> None:
    """Do nothing."""


class ByteStream(asyncio.BufferedProtocol):
    """Takes over the transport of a pair of asyncio streams.

    `on_data` is called whenever data arrived, `on_end` once, when the other side has sent its last byte. Both may be
    replaced, because a server connection outlives the client that it was opened for. `reads_little` limits how much is
    read at once; it is set while processing the data may be expensive.
    """

    def __init__(
        self, writer: asyncio.StreamWriter, *, on_data: Callable[[], None], crowded: Callable[[], bool] = lambda: False
    ) -> None:
        self.buffer = BodyBuffer()
        self.ended = False
        self.is_reset = False
        self.reads_little = False
        self.on_end: Callable[[], None] = do_nothing
        self.on_data = on_data
        self._crowded = crowded
        self._writer = writer
        self._transport: Any = writer.transport  # of both kinds, which have no common type
        self._beneath: asyncio.BaseProtocol = writer.transport.get_protocol()
        self._tls: SSL.Connection | None = None
        self.refusal = ""  # why TLS ended with an alert
        self._records = TlsRecords()
        self._is_open = True  # the TLS handshake is over, or there is none
        self._has_finished = False
        self._reading: asyncio.Future[bool] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._is_full = self._is_lost = False
        self._arrived: select.poll | None = None

    def take_over(self, reader: asyncio.StreamReader, ahead: bytes = b"") -> None:
        """Receive `ahead`, then the unread rest of `reader`, then what the transport reads from now on."""
        self._transport.set_protocol(self)
        unread: bytearray = reader._buffer  # type: ignore[attr-defined] # noqa: SLF001 - `read` might wait
        self.buffer += ahead + bytes(unread)
        unread.clear()
        if reader.at_eof() or self._transport.is_closing():
            self._end()
        else:
            self._transport.resume_reading()

    async def handshake(self, tls: SSL.Connection) -> None:
        """Do the handshake of `tls`. Raises `SSL.Error`, `ConnectionError`."""
        self._tls, self._is_open = tls, False
        if begun := bytes(self.buffer):
            self.buffer = BodyBuffer()
            self._records.read(begun)
            tls.bio_write(begun)
        while not self._is_open:
            try:
                tls.do_handshake()
                self._is_open = True
            except SSL.WantReadError:
                self._flush()
                if not await self.more():
                    raise ConnectionAbortedError("connection closed") from None
            finally:
                self._flush()
        self._decrypt(tls)

    @property
    def alpn(self) -> bytes:
        """The protocol that was negotiated, if any."""
        return self._tls.get_alpn_proto_negotiated() if self._tls else b""

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent: the connection is open, and nothing unexpected has arrived."""
        is_open = not (self.ended or self._is_lost or self._transport.is_closing())
        return is_open and not self.buffer and self._records.is_at_end and not self._may_hide_data

    @property
    def _may_hide_data(self) -> bool:
        """Whether asyncio's TLS (to an upstream proxy) may hold data, which the kernel then no longer reports."""
        return not self._transport.is_reading() and self._transport.get_extra_info("sslcontext") is not None

    @property
    def is_quiet(self) -> bool:
        """Whether it is usable, and the kernel has received nothing for it either: no data, and no end."""
        if not self.is_usable:
            return False
        if self._arrived is None:
            self._arrived = select.poll()
            fileno = self._transport.get_extra_info("socket").fileno()
            self._arrived.register(fileno, select.POLLIN | select.POLLRDHUP)
        return not self._arrived.poll(0)

    @property
    def has_sent_all(self) -> bool:
        """Whether the kernel has taken all that was written."""
        return not self._transport.get_write_buffer_size()

    async def more(self) -> bool:
        """Wait for more data. Return False if there will be none. Check `buffer` before calling this."""
        if self.ended:
            return False
        self.resume()
        self._reading = asyncio.get_running_loop().create_future()
        try:
            return await self._reading
        finally:
            self._reading = None

    def resume(self) -> None:
        """Read from the socket again, if that was paused."""
        if not self._transport.is_reading():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send `data`. If the connection is lost, do nothing; `drain` raises."""
        if not data:
            return  # OpenSSL takes it for an error
        if self._tls is None:
            self._transport.write(data)
            return
        try:
            self._tls.send(data)
        except SSL.Error:
            self._transport.abort()
            return
        self._flush(len(data))

    async def drain(self) -> None:
        """Wait until there is room for more. Raises `ConnectionError` if the connection is lost."""
        if self._is_full and not self._is_lost:
            self._writing = asyncio.get_running_loop().create_future()
            try:
                await self._writing
            finally:
                self._writing = None
        if self._is_lost or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")

    def close(self) -> None:
        """Close after sending what was written and close_notify. Without it, OpenSSL 3 reports an error."""
        self._notify()
        self._transport.close()

    def finish(self) -> None:
        """Send the end after what was written. The other side may go on sending; nothing more is sent to it."""
        self._notify()
        self._has_finished = True
        with suppress(OSError):  # the connection is lost
            self._transport.write_eof()

    async def linger(self, seconds: float) -> None:
        """Send the end, and discard what arrives within `seconds`, or the first `LINGER_BYTES` of it.

        Data that arrives at a closed connection resets it, and the other side might lose the last answer.
        """
        self.finish()
        left = LINGER_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while left > 0 and (self.buffer or await self.more()):
                    left -= len(self.buffer)
                    self.buffer = BodyBuffer()

    def cut(self) -> None:
        """Close after sending what was written, without close_notify, to show that the data is incomplete."""
        self._transport.close()

    def reset(self) -> None:
        """Close at once, with a reset, so that the other side sees an error."""
        raw: socket.socket | None = self._transport.get_extra_info("socket")
        if raw is not None and raw.fileno() >= 0:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._transport.abort()

    def drop(self) -> None:
        """Close a connection to which nothing is left to send, without waiting for the other side to read it."""
        self.close()
        if self._transport.get_write_buffer_size():
            self._transport.abort()

    @override
    def get_buffer(self, sizehint: int) -> Buffer:
        return INCOMING[:SMALL_READ] if self.reads_little or self._crowded() else INCOMING

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self.on_data()
        data = bytes(INCOMING[:nbytes])
        if self._tls is None:
            self.buffer += data
        else:
            ended = self._records.read(data)
            self._tls.bio_write(data)
            if self._is_open:
                self._decrypt(self._tls, ended)
        if self._reading is not None:
            _finish(self._reading, result=True)
        elif len(self.buffer) > HELD_BYTES:
            self._transport.pause_reading()

    @override
    def eof_received(self) -> bool | None:
        self._end()
        return self._beneath.eof_received() if isinstance(self._beneath, asyncio.Protocol) else None

    @override
    def pause_writing(self) -> None:
        self._is_full = True

    @override
    def resume_writing(self) -> None:
        self._is_full = False
        if self._writing is not None:
            _finish(self._writing, result=None)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError):
            self._read_last()
        self._is_lost = True
        self.is_reset |= isinstance(exc, ConnectionResetError)
        self.resume_writing()
        self._end()
        self._beneath.connection_lost(exc)

    def _read_last(self) -> None:
        """Read what came before a reset, such as an alert: after a write that fails, asyncio reads no more."""
        raw: socket.socket | None = self._transport.get_extra_info("socket")
        is_plain = self._transport.get_extra_info("sslcontext") is None
        if self._tls is not None and is_plain and not self.ended and raw is not None and raw.fileno() >= 0:
            with suppress(OSError):
                if size := os.readv(raw.fileno(), [self.get_buffer(0)]):
                    self.buffer_updated(size)

    def _notify(self) -> None:
        if self._tls is not None and self._is_open and not (self._has_finished or self._transport.is_closing()):
            with suppress(SSL.Error):
                self._tls.shutdown()
            self._flush()

    def _end(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._reading is not None:
            _finish(self._reading, result=False)
        self.on_end()

    def _decrypt(self, tls: SSL.Connection, most: int = sys.maxsize) -> None:
        """Take out what has arrived, in at most so many records."""
        records: list[bytes] = []
        has_ended = False
        try:
            for _ in range(most):
                records.append(tls.recv(RECORD))  # noqa: PERF401 - what came before an error is kept
        except SSL.WantReadError:
            pass
        except SSL.ZeroReturnError:
            has_ended = True
        except SSL.Error as error:  # no more will come
            has_ended = self.is_reset = True
            # In TLS 1.3, a server refuses the client's certificate after the handshake.
            self.refusal = why_failed(error, tls)
        if len(records) < most:
            self._flush()  # a record without data may have required an answer, such as a key update
        if records:
            self.buffer += b"".join(records) if len(records) > 1 else records[0]
        if has_ended:
            if records and self._reading is not None:
                _finish(self._reading, result=True)
            self._end()

    def _flush(self, size: int = 0) -> None:
        if self._has_finished:
            return  # asyncio raises on a write after the end, even of an alert
        assert self._tls is not None  # noqa: S101 - only called with TLS
        room, read = size + size // 64 + 4096, 0
        try:
            while not read or read == room:
                data = self._tls.bio_read(room)
                read = len(data)
                self._transport.write(data)
        except SSL.WantReadError:
            pass  # there was nothing


def _finish[T](future: asyncio.Future[T], *, result: T) -> None:
    if not future.done():
        future.set_result(result)
