"""Parse chunked bodies: strictly in requests (no trailers, short size lines, only CRLF), with h11 in responses."""

import re
from typing import override

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer

from agent_sandbox.proxy.limits import Limits

LIMITS = Limits()
SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\x20-\x7e\t]*)?\r\n")


class ChunkReader:
    """A body reader with the interface of h11's: returns data, the end of the message, or None to wait for more.

    h11's own does not limit chunk extensions, and trailers make mitmproxy raise.
    """

    def __init__(self, *, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        self._left = 0
        self._after_data = False
        self._ending = False

    def __call__(self, buffer: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        """Take all available body data out of `buffer` at once, even if it is thousands of one-byte chunks."""
        data = b"".join(iter(lambda: self._piece(buffer), b""))
        if data:
            return h11.Data(data=data)
        return self._finish(buffer) if self._ending else None

    def read_eof(self) -> None:
        """Reject a body that ends early."""
        raise h11.RemoteProtocolError("the connection was closed within a chunked body")

    def _piece(self, buffer: ReceiveBuffer) -> bytes:
        if self._left == 0 and not self._next_chunk(buffer):
            return b""
        data = bytes(buffer.maybe_extract_at_most(self._left) or b"")
        self._left -= len(data)
        self._after_data = self._left == 0 and bool(data)
        return data

    def _next_chunk(self, buffer: ReceiveBuffer) -> bool:
        if self._ending:
            return True
        if self._after_data:
            if not _take_line_end(buffer):
                return False
            self._after_data = False
        line = buffer.maybe_extract_next_line()
        if line is None:
            if len(buffer) > self._line_bytes:
                raise h11.RemoteProtocolError("a chunk size line that is too long")
            return False
        found = SIZE.fullmatch(bytes(line))
        if found is None or len(line) > self._line_bytes:
            raise h11.RemoteProtocolError("a malformed chunk size line")
        self._left = int(found[1], 16)
        self._ending = self._left == 0
        return True

    @staticmethod
    def _finish(buffer: ReceiveBuffer) -> h11.EndOfMessage | None:
        if not _take_line_end(buffer):
            return None
        return h11.EndOfMessage()


class TrailerDropper(ChunkedReader):
    """Reads a chunked response and drops its trailers."""

    _ended = False

    @override
    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        # Join all available chunks: passing each one through all layers is slow.
        data = b"".join(iter(lambda: self._piece(buf), b""))
        if data:
            return h11.Data(data=data)
        return h11.EndOfMessage() if self._ended else None

    def _piece(self, buf: ReceiveBuffer) -> bytes:
        event = None if self._ended else super().__call__(buf)
        if event is None and not self._ended and len(buf) > LIMITS.response_head_bytes:
            raise h11.RemoteProtocolError(
                f"a chunk size line or trailers of more than {LIMITS.response_head_bytes} bytes"
            )
        self._ended = self._ended or isinstance(event, h11.EndOfMessage)
        return bytes(event.data) if isinstance(event, h11.Data) else b""


def _take_line_end(buffer: ReceiveBuffer) -> bool:
    start = bytes(buffer)[:2] if len(buffer) <= 2 else bytes(buffer._data[:2])  # noqa: SLF001 - avoids a copy of the whole buffer
    if start == b"\r\n":
        buffer.maybe_extract_at_most(2)
        return True
    if start in (b"", b"\r"):
        return False
    raise h11.RemoteProtocolError("a chunk that does not end with CRLF, or trailers after the last one")
