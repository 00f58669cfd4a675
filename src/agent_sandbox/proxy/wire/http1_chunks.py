"""Parse a chunked request body strictly: no trailers, short size lines, only CRLF."""

import re

import h11
from h11._receivebuffer import ReceiveBuffer

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


def _take_line_end(buffer: ReceiveBuffer) -> bool:
    start = bytes(buffer)[:2] if len(buffer) <= 2 else bytes(buffer._data[:2])  # noqa: SLF001 - avoids a copy of the whole buffer
    if start == b"\r\n":
        buffer.maybe_extract_at_most(2)
        return True
    if start in (b"", b"\r"):
        return False
    raise h11.RemoteProtocolError("a chunk that does not end with CRLF, or trailers after the last one")
