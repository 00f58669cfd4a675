"""h11's receive buffer, which gives everything away without copying it first."""

from typing import override

from h11._receivebuffer import ReceiveBuffer

END = b"\r\n\r\n"


class BodyBuffer(ReceiveBuffer):
    """Holds what a connection sent. In the middle of a body, all of it is wanted: h11 copies that twice."""

    @override
    def maybe_extract_at_most(self, count: int) -> bytearray | None:
        if not self or count < len(self):
            return super().maybe_extract_at_most(count)
        everything, self._data = self._data, bytearray()
        self._next_line_search = self._multiple_lines_search = 0
        return everything

    def head_end(self) -> int:
        """Return where the first head ends, with its empty line; 0 while there is more to come."""
        end = self._data.find(END)
        return end + len(END) if end >= 0 else 0

    def starts(self, at: int, what: bytes) -> bool:
        """Tell whether `what` stands `at` there."""
        return self._data.startswith(what, at)
