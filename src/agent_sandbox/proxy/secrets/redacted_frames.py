"""Redact echoes from the WebSocket frames of a server."""

from typing import override

from agent_sandbox.proxy.secrets.redaction import Echoes, Redactor, redact
from agent_sandbox.proxy.secrets.search import SearchBudget
from agent_sandbox.proxy.wire.websocket_frames import BINARY, CLOSE, CONTINUES, TEXT, Frames, frame


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
    def read(self, data: bytes) -> bytes:
        """Check `data` and return what can be forwarded now. Raises `BadFrameError`."""
        data, self._begun = self._begun + data, b""
        at, shown = 0, []
        while at < len(data) and not self.closed:
            if self._left:
                size = self._payload(len(data) - at)
                shown.append(self._pass(data[at : at + size]))
            elif size := self._head(data[at : at + 14]):
                if self._kind in (TEXT, BINARY):
                    self._opcode, self._redactor = self._kind, Redactor(self._echoes, self._budget)
                if not self._left:
                    shown.append(self._pass(b""))
            else:
                self._begun = data[at:]
                break
            at += size
        return b"".join(shown)

    def _pass(self, payload: bytes) -> bytes:
        """Return the frame to send for a part of the current frame's payload; empty if there is nothing to send."""
        if self._kind >= CLOSE:
            self._control += payload
            if self._left:
                return b""
            shown, self._control = redact(self._echoes, self._control, self._budget), b""
            return frame(self._kind, shown, ends=True)
        shown, ends = self._redactor.feed(payload), self.message_ended
        if ends:
            shown += self._redactor.end()
        elif not shown:
            return b""
        opcode, self._opcode = self._opcode, CONTINUES
        return frame(opcode, shown, ends=ends)
