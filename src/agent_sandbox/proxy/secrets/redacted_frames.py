"""Redact echoes from the WebSocket frames of a server."""

from collections.abc import Iterator
from typing import override

from agent_sandbox.proxy.limits import STEP_ITEMS
from agent_sandbox.proxy.secrets.redaction import PIECE, Echoes, Redactor, redact
from agent_sandbox.proxy.secrets.search import SearchBudget
from agent_sandbox.proxy.wire.websocket_frames import BINARY, CLOSE, CONTINUES, TEXT, Frames, frame

# Searching for so many forms costs as much as a frame. A control frame counts as one with a literal.
FORMS_PER_FRAME, MANY_FORMS = 4, 48


def server_frames(echoes: Echoes, *, longest: int) -> Frames:
    """Return the frames of a server, redacted if there are echoes. `longest` is the longest message, in bytes."""
    return RedactedFrames(echoes, longest=longest) if echoes else Frames(masked=False, longest=longest)


class RedactedFrames(Frames):
    """The frames of a server that was sent a secret, with echoes in its messages overwritten.

    Messages are divided into new frames, because the end of the server's frame may be the start of an echo.
    """

    def __init__(self, echoes: Echoes, *, longest: int) -> None:
        super().__init__(masked=False, longest=longest)
        self._echoes = echoes
        self._budget = SearchBudget()
        self._opcode = CONTINUES  # of the next frame of the current message
        self._redactor = Redactor(echoes, self._budget)
        self._control = b""  # payload of the current control frame

    @override
    def read(self, data: bytes) -> Iterator[bytes]:
        """Check `data` and yield what can be forwarded now, after each step of frames or bytes."""
        shown, count, size = list[bytes](), 0, 0
        for payload in self._payloads(data):
            for sent in self._pass(payload):
                shown.append(sent)
                searched = MANY_FORMS if self._kind >= CLOSE else self._redactor.searched
                count, size = count + 1 + searched // FORMS_PER_FRAME, size + len(sent)
                if count >= STEP_ITEMS or size >= PIECE:
                    yield b"".join(shown)
                    shown, count, size = [], 0, 0
        yield b"".join(shown)

    def _payloads(self, data: bytes) -> Iterator[bytes]:
        """Yield the payloads of frames, as far as they have arrived. Raises `BadFrameError`."""
        data, self._begun = self._begun + data, b""
        at = 0
        while at < len(data) and not self.closed:
            if self._left:
                size = self._payload(len(data) - at)
                yield data[at : at + size]
            elif size := self._head(data[at : at + 14]):
                if self._kind in (TEXT, BINARY):
                    self._opcode, self._redactor = self._kind, Redactor(self._echoes, self._budget)
                if not self._left:
                    yield b""
            else:
                self._begun = data[at:]
                break
            at += size

    def _pass(self, payload: bytes) -> Iterator[bytes]:
        """Yield the frames to send for a part of the current frame's payload, in steps of bounded work."""
        if self._kind >= CLOSE:
            self._control += payload
            if not self._left:
                shown, self._control = redact(self._echoes, self._control, self._budget), b""
                yield frame(self._kind, shown, ends=True)
            return
        ready = b""
        for shown in self._redactor.feed(payload):
            if ready:
                yield self._frame(ready)
            ready = shown
        if self.message_ended:
            yield self._frame(ready + self._redactor.end(), ends=True)
        elif ready:
            yield self._frame(ready)

    def _frame(self, shown: bytes, *, ends: bool = False) -> bytes:
        opcode, self._opcode = self._opcode, CONTINUES
        return frame(opcode, shown, ends=ends)
