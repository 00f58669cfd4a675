"""Read the paths in pasted text, in the forms in which terminals write the path of a dropped file."""

import os
import re
import shlex
from urllib.parse import unquote, urlsplit

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MOST_PATHS = 10
# A path of Windows, which WSL mounts below /mnt.
WINDOWS = re.compile(r"\"?([A-Za-z]):\\([^\"]+)\"?")


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
