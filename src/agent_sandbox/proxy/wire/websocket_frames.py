"""Follow the frames of one side of a WebSocket (RFC 6455): what is none goes nowhere, and nothing is held but a head.

What is not settled by the standard alone is refused: no extension was agreed on, each length has one spelling.
"""

CONTINUES, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
ENDS, RESERVED, MASKED = 0x80, 0x70, 0x80
LONGEST_CONTROL = 125
LENGTH_BYTES = {126: (2, 126), 127: (8, 65_536)}  # how many follow, and the least that is written so


class BadFrameError(ValueError):
    """What came is no frame that may stand there."""


class Frames:
    """One side: `masked` is what a client's frames are, `longest` the most that a message may have of bytes."""

    def __init__(self, *, masked: bool, longest: int) -> None:
        self._mask = MASKED if masked else 0
        self._longest = longest
        self._begun = b""  # of a head
        self._left = 0  # of a payload
        self._kind = CONTINUES
        self._message: int | None = None  # bytes so far of the one that is under way
        self.count = 0  # bytes of messages

    @property
    def closed(self) -> bool:
        """Whether this side has said that it says no more."""
        return self._kind == CLOSE and not self._left

    def read(self, data: bytes) -> bytes:
        """Follow what came, and return what may go on of it. Raises `BadFrameError`."""
        data, self._begun = self._begun + data, b""
        at = 0
        while at < len(data) and not self.closed:
            if self._left:
                at += self._payload(len(data) - at)
            elif size := self._head(data[at : at + 14]):
                at += size
            else:
                self._begun = data[at:]
                break
        return data[:at]

    def _payload(self, there: int) -> int:
        size = min(self._left, there)
        self._left -= size
        if self._kind < CLOSE:
            self.count += size
        return size

    def _head(self, data: bytes) -> int:
        """Take note of the head that `data` begins with; return its size, 0 while it is incomplete."""
        if len(data) < 2:
            return 0
        if data[1] & MASKED != self._mask:
            raise BadFrameError("a frame that is masked, or not, against the rule")
        size, least, following = data[1] & ~MASKED, 0, 0
        if size in LENGTH_BYTES:
            following, least = LENGTH_BYTES[size]
        end = 2 + following + (4 if self._mask else 0)
        if len(data) < end:
            return 0
        if following:
            size = int.from_bytes(data[2 : 2 + following])
        if size < least:
            raise BadFrameError("a length that is not as short as it can be")
        self._kind, self._left = self._fitting(data[0], size), size
        return end

    def _fitting(self, first: int, size: int) -> int:
        """Return the kind of a frame that may stand here."""
        kind = first & ~(ENDS | RESERVED)
        if first & RESERVED or kind not in {CONTINUES, TEXT, BINARY, CLOSE, PING, PONG}:
            raise BadFrameError("a frame of no known kind")
        if kind >= CLOSE:
            if not first & ENDS or size > LONGEST_CONTROL:
                raise BadFrameError("a control frame that is long or in pieces")
            return kind
        if (kind == CONTINUES) is (self._message is None):
            raise BadFrameError("a piece of no message, or a message within another")
        message = (self._message or 0) + size
        if message > self._longest:
            raise BadFrameError(f"a message of more than {self._longest} bytes")
        self._message = None if first & ENDS else message
        return kind
