r"""Find what the user pastes among the bytes that the terminal sends.

A terminal marks pasted text, and a file that is dropped on it arrives as pasted text with its path. For a clipboard
that contains only an image, some terminals send an empty paste, and others pass on Ctrl-V.
"""

from collections.abc import Iterator

from msgspec import Struct

BEGIN, END = b"\x1b[200~", b"\x1b[201~"
# Of pasted text that may be the paths of files; longer text is passed on at once.
LONGEST = 8192
# Ctrl-V as a control character, and as the keyboard protocol of kitty reports it.
CTRL_V = frozenset({b"\x16", b"\x1b[118;5u", b"\x1b[118;5:1u"})


class Paste(Struct, frozen=True):
    """Pasted text, or none if the clipboard may contain an image. `sent` is what the terminal sent."""

    sent: bytes
    text: bytes = b""


class PasteReader:
    """Split the input of one terminal into pastes and all else; no byte is lost or added."""

    def __init__(self) -> None:
        self._held = b""  # of a paste that has begun
        self._passes = False  # a long paste, until its end

    def feed(self, data: bytes) -> Iterator[bytes | Paste]:
        """Yield the next parts. A paste is held until it is complete, and a mark that comes in pieces is not seen."""
        if data in CTRL_V and not self._held and not self._passes:
            yield Paste(data)
            return
        data, self._held = self._held + data, b""
        while data:
            if self._passes:
                before, mark, data = data.partition(END)
                self._passes = not mark
                yield before + mark
                continue
            before, mark, rest = data.partition(BEGIN)
            if before:
                yield before
            text, end, data = rest.partition(END)
            if not mark:
                return
            if end:
                yield Paste(mark + text + end, text)
            elif len(text) <= LONGEST:
                self._held = mark + text
            else:
                self._passes = True
                yield mark + text


def pasted(text: str) -> bytes:
    """Return what a terminal sends when this is pasted."""
    return BEGIN + text.encode() + END
