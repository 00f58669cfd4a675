"""Ask before a program in the sandbox copies to the clipboard."""

from collections.abc import Callable, Iterator

from agent_sandbox.counted import counted
from agent_sandbox.features.session.clipboard.clipboard_filter import copy_sequence
from agent_sandbox.printable import printable
from agent_sandbox.size_text import size_text

MOST_LINES = 10  # of the text that are shown
WIDEST = 100


class CopyQuestion:
    """Holds the last copy until the user answers. `write` writes to the terminal."""

    def __init__(self, name: str, *, write: Callable[[bytes], None]) -> None:
        self._name, self._write = name, write
        self._copy = b""
        self._beginning: list[str] = []
        self._more = 0
        self._refuses_all = False

    def hold(self, copied: bytes) -> None:
        """Ask about this copy, and forget an earlier one."""
        if self._refuses_all:
            return
        self._copy = copied
        # Each of what splitlines() splits at: a shell runs the command before a carriage return, too.
        lines = copied.decode("utf-8", "replace").splitlines()
        self._beginning, self._more = lines[:MOST_LINES], len(lines[MOST_LINES:])

    @property
    def unanswered(self) -> str:
        """Return what to say if the program ends before the user has answered; empty if nothing waits."""
        return f"the program in {self._name} wanted to copy {self._size} to your clipboard" if self._copy else ""

    @property
    def _size(self) -> str:
        return size_text(len(self._copy))

    def lines(self, columns: int) -> list[str]:
        """Return the question with the beginning of the text."""
        if not self._copy:
            return []
        width = min(columns, WIDEST) - 1
        title = f"{self._name}: the sandbox wants to copy {self._size} to your clipboard"
        keys = ("  y  copy it", "  n  do not copy it", "  x  do not copy it, and do not ask again in this terminal")
        return [
            title[:width],
            "",
            *(line[:width] for line in self._preview(width)),
            "",
            *(key[:width] for key in keys),
        ]

    def _preview(self, width: int) -> Iterator[str]:
        for line in self._beginning:
            shown = printable(line[:WIDEST])
            room = width - 4
            yield f"  | {shown}" if len(shown) <= room and len(line) <= WIDEST else f"  | {shown[: room - 3]}..."
        if self._more:
            yield f"  and {counted(self._more, 'more line')}"

    def signal(self) -> bytes:
        """Return nothing: a copy does not ring."""
        return b""

    def press(self, key: str) -> None:
        """Copy for "y"; forget the text for the other keys that are shown."""
        if key == "y":
            self._write(copy_sequence(self._copy))
        if key in {"y", "n", "x", "escape"}:
            self._copy = b""
        self._refuses_all = self._refuses_all or key == "x"
