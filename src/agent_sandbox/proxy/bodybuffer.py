"""h11's receive buffer, which gives everything away without copying it first."""

from typing import override

from h11._receivebuffer import ReceiveBuffer


class BodyBuffer(ReceiveBuffer):
    """Holds what a connection sent. In the middle of a body, all of it is wanted: h11 copies that twice."""

    @override
    def maybe_extract_at_most(self, count: int) -> bytearray | None:
        if not self or count < len(self):
            return super().maybe_extract_at_most(count)
        everything, self._data = self._data, bytearray()
        self._next_line_search = self._multiple_lines_search = 0
        return everything
