"""Check the frames of one side of a WebSocket (RFC 6455) while they are forwarded, buffering only frame heads.

It rejects frames that RFC 6455 allows only with an extension, and lengths that are not minimally encoded.
"""

from collections.abc import Iterator

from agent_sandbox.proxy.limits import STEP_ITEMS

CONTINUES, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
ENDS, RESERVED, MASKED = 0x80, 0x70, 0x80
LONGEST_CONTROL = 125
LENGTH_BYTES = {126: (2, 126), 127: (8, 65_536)}  # marker: (number of length bytes, smallest length written so)


class BadFrameError(ValueError):
    """The data is not a valid frame at this point."""


class Frames:
    """The frames of one side. `masked` is true for a client; `longest` is the longest message, in bytes."""

    def __init__(self, *, masked: bool, longest: int) -> None:
        self._mask = MASKED if masked else 0
        self._longest = longest
        self._begun = b""  # start of an incomplete head
        self._left = 0  # bytes left of the current payload
        self._kind = CONTINUES
        self._message: int | None = None  # bytes so far of the current message
        self.count = 0  # payload bytes of all messages

    @property
    def closed(self) -> bool:
        """Whether this side has sent a complete Close frame."""
        return self._kind == CLOSE and not self._left

    @property
    def message_ended(self) -> bool:
        """Whether the last message is complete, and no other has begun."""
        return self._message is None and not self._left

    def read(self, data: bytes) -> Iterator[bytes]:
        """Check `data` and yield what can be forwarded now, after each step of frames. Raises `BadFrameError`."""
        data, self._begun = self._begun + data, b""
        at = passed = count = 0
        while at < len(data) and not self.closed:
            if self._left:
                at += self._payload(len(data) - at)
            elif size := self._head(data[at : at + 14]):
                at, count = at + size, count + 1
            else:
                self._begun = data[at:]
                break
            if count == STEP_ITEMS:
                yield data[passed:at]
                passed, count = at, 0
        yield data[passed:at]

    def _payload(self, there: int) -> int:
        size = min(self._left, there)
        self._left -= size
        if self._kind < CLOSE:
            self.count += size
        return size

    def _head(self, data: bytes) -> int:
        """Parse the frame head at the start of `data`; return its size, 0 while it is incomplete."""
        if len(data) < 2:
            return 0
        if data[1] & MASKED != self._mask:
            raise BadFrameError("a frame with the wrong masking")
        size, least, following = data[1] & ~MASKED, 0, 0
        if size in LENGTH_BYTES:
            following, least = LENGTH_BYTES[size]
        end = 2 + following + (4 if self._mask else 0)
        if len(data) < end:
            return 0
        if following:
            size = int.from_bytes(data[2 : 2 + following])
        if size < least:
            raise BadFrameError("a frame length that is not minimally encoded")
        self._kind, self._left = self._fitting(data[0], size), size
        return end

    def _fitting(self, first: int, size: int) -> int:
        """Return the opcode of a frame if it is valid at this point. Raises `BadFrameError`."""
        kind = first & ~(ENDS | RESERVED)
        if first & RESERVED or kind not in {CONTINUES, TEXT, BINARY, CLOSE, PING, PONG}:
            raise BadFrameError("a frame of unknown type")
        if kind >= CLOSE:
            if not first & ENDS or size > LONGEST_CONTROL:
                raise BadFrameError("a control frame that is too long or fragmented")
            return kind
        if (kind == CONTINUES) is (self._message is None):
            raise BadFrameError("a continuation without a message, or a message within another")
        message = (self._message or 0) + size
        if message > self._longest:
            raise BadFrameError(f"a message of more than {self._longest} bytes")
        self._message = None if first & ENDS else message
        return kind


def frame(opcode: int, payload: bytes, *, ends: bool) -> bytes:
    r"""Return a frame of a server. `ends`: its message ends with it.

    >>> frame(TEXT, b"hi", ends=True)
    b'\x81\x02hi'
    """
    size, first = len(payload), opcode | (ENDS if ends else 0)
    for marker, (following, least) in reversed(LENGTH_BYTES.items()):
        if size >= least:
            return bytes((first, marker)) + size.to_bytes(following) + payload
    return bytes((first, size)) + payload
