"""h11's receive buffer, without copies when everything in it is taken at once."""

from typing import Self, override

from h11._receivebuffer import ReceiveBuffer

END = b"\r\n\r\n"


class BodyBuffer(ReceiveBuffer):
    """A receive buffer for bodies, which are usually taken whole: h11's own copies them three times.

    A single chunk is kept as `bytes` until more arrives or a part of it is taken.
    """

    _data: bytes | bytearray  # type: ignore[assignment] # h11 declares a bytearray

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
        return everything or None  # type: ignore[return-value] # callers accept bytes

    @override
    def _extract(self, count: int) -> bytearray:
        self._make_room()
        return super()._extract(count)

    def _make_room(self) -> None:
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)

    def head_end(self) -> int:
        """Return the length of the first head including its empty line, 0 while it is incomplete."""
        end = self._data.find(END)
        return end + len(END) if end >= 0 else 0
