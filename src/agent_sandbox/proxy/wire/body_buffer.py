"""h11's receive buffer, which takes what comes and gives all of it away without copying it."""

from typing import Self, override

from h11._receivebuffer import ReceiveBuffer

END = b"\r\n\r\n"


class BodyBuffer(ReceiveBuffer):
    """Holds what a connection sent. In the middle of a body, all that came is wanted: h11 copies it three times.

    What came alone is held as it is, until more comes or a part of it is taken.
    """

    _data: bytes | bytearray  # type: ignore[assignment] # of h11's own they are bytearrays

    @override
    def __iadd__(self, byteslike: bytes | bytearray) -> Self:
        if not self._data:
            self._data = bytes(byteslike)
            return self
        self._make_room()
        super().__iadd__(byteslike)
        return self

    @override
    def maybe_extract_at_most(self, count: int) -> bytearray | None:
        if count < len(self):
            return self._extract(count) if count else None
        everything, self._data = self._data, b""
        self._next_line_search = self._multiple_lines_search = 0
        return everything or None  # type: ignore[return-value] # bytes will do for whoever asks

    @override
    def _extract(self, count: int) -> bytearray:
        self._make_room()
        return super()._extract(count)

    def _make_room(self) -> None:
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)

    def head_end(self) -> int:
        """Return where the first head ends, with its empty line; 0 while there is more to come."""
        end = self._data.find(END)
        return end + len(END) if end >= 0 else 0

    def first(self, count: int) -> bytes:
        """Return so many bytes, or what there is, and keep them."""
        return bytes(self._data[:count])
