"""Several overlays over one program, one at a time."""

from collections.abc import Callable, Sequence

from agent_sandbox.runtime.host.pty_session import Overlay


class Overlays:
    """Shows the first overlay that has lines. A key goes to the one that was shown, never to the one after it."""

    def __init__(self, overlays: Sequence[Overlay], *, changed: Callable[[], None]) -> None:
        self._overlays, self._changed = overlays, changed
        self._shown: Overlay | None = None

    def lines(self, columns: int) -> Sequence[str]:
        """Return the lines of the shown overlay until it has none; then the program is seen before the next one."""
        if self._shown is not None:
            if lines := self._shown.lines(columns):
                return lines
            self._shown = None
            self._changed()
            return []
        for overlay in self._overlays:
            if lines := overlay.lines(columns):
                self._shown = overlay
                return lines
        return []

    def signal(self) -> bytes:
        """Return what alerts the user to any of them."""
        return b"".join(overlay.signal() for overlay in self._overlays)

    def press(self, key: str) -> None:
        """Pass a key on to the shown overlay."""
        if self._shown is not None:
            self._shown.press(key)
