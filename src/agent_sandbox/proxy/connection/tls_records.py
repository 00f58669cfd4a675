"""Find where TLS records end: OpenSSL does not tell whether it holds a part of one."""

HEADER = 5  # type, version, and the length of the rest in two bytes


class TlsRecords:
    """Follows the records of one direction. `is_at_end`: the data so far ends where a record ends."""

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
        while at + HEADER <= size:
            at += HEADER + (data[at + 3] << 8 | data[at + 4])
            ended += at <= size
        if at < size:
            self._begun, self._left = data[at:], 0
        else:
            self._left = at - size
        return ended
