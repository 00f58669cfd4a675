"""Read a chunked request body, strictly: no trailers, short size lines, CRLF and nothing else."""

import re

import h11
from h11._receivebuffer import ReceiveBuffer

SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\x20-\x7e\t]*)?\r\n")


class ChunkReader:
    """Has the shape of h11's readers: give it the buffer, get data, the end, or None for `not yet`.

    h11 alone would take extension lines without end and, as mitmproxy, fall over trailers.
    """

    def __init__(self, *, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        self._left = 0
        self._after_data = False
        self._ending = False

    def __call__(self, buffer: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        """Take what there is of the body out of `buffer`, chunks of a byte by the thousand at once."""
        data = b"".join(iter(lambda: self._piece(buffer), b""))
        if data:
            return h11.Data(data=data)
        return self._finish(buffer) if self._ending else None

    def read_eof(self) -> None:
        """Refuse a body that ends in the middle."""
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
    start = bytes(buffer)[:2] if len(buffer) <= 2 else bytes(buffer._data[:2])  # noqa: SLF001 - a copy of all of it would cost
    if start == b"\r\n":
        buffer.maybe_extract_at_most(2)
        return True
    if start in (b"", b"\r"):
        return False
    raise h11.RemoteProtocolError("a chunk that does not end with CRLF, or trailers behind the last")
