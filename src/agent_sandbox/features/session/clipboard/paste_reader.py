r"""Find what the user pastes among the bytes that the terminal sends.

A terminal marks pasted text, and a file that is dropped on it arrives as pasted text with its path. For a clipboard
that contains only an image, some terminals send an empty paste, and others pass on Ctrl-V.
"""

import os
import re
import shlex
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from msgspec import Struct

BEGIN, END = b"\x1b[200~", b"\x1b[201~"
# Of pasted text that may be the paths of files; longer text is passed on at once.
LONGEST = 8192
# Ctrl-V as a control character, and as the keyboard protocol of kitty reports it.
CTRL_V = frozenset({b"\x16", b"\x1b[118;5u", b"\x1b[118;5:1u"})
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MOST_PATHS = 10
# A path of Windows, which WSL mounts below /mnt.
WINDOWS = re.compile(r"\"?([A-Za-z]):\\([^\"]+)\"?")


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


def image_paths(text: str) -> tuple[str, ...]:
    r"""Return the absolute paths, if the text consists of paths with the name of an image and nothing else.

    >>> image_paths("'/home/me/my shot.png' "), image_paths(r"/tmp/a\ b.jpg"), image_paths("file:///tmp/a%20b.gif")
    (('/home/me/my shot.png',), ('/tmp/a b.jpg',), ('/tmp/a b.gif',))
    >>> image_paths(r"C:\Users\me\a b.png"), image_paths("see /tmp/a.png"), image_paths("a.png")
    (('/mnt/c/Users/me/a b.png',), (), ())
    """
    text = text.strip()
    if not text.isprintable() and not text.replace("\n", "").replace("\r", "").isprintable():
        return ()
    if found := WINDOWS.fullmatch(text):
        words = [f"/mnt/{found[1].lower()}/{found[2].replace('\\', '/')}"]
    elif text.startswith("/") and os.path.lexists(text):  # with spaces, and not quoted
        words = [text]
    else:
        try:
            words = [_path(word) for word in shlex.split(text)]
        except ValueError:  # an unclosed quote, an invalid URL
            return ()
    if not 0 < len(words) <= MOST_PATHS or not all(map(_names_image, words)):
        return ()
    return tuple(words)


def _path(word: str) -> str:
    if not word.startswith("file://"):
        return word
    url = urlsplit(word)
    return unquote(url.path) if url.netloc in {"", "localhost"} else ""


def _names_image(path: str) -> bool:
    return path.startswith("/") and path.isprintable() and path.lower().endswith(SUFFIXES)
