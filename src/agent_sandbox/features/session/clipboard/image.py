"""An image of this machine that the user gives to the agent."""

import os
import stat

from msgspec import Struct

from agent_sandbox.features.copying import tree
from agent_sandbox.features.copying.tree import RefusedError
from agent_sandbox.size_text import size_text

MOST_BYTES = 20_000_000
# How the files of each kind begin, and the suffix of a copy.
KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF87a": "gif", b"GIF89a": "gif"}
TOO_LARGE = f"is larger than {size_text(MOST_BYTES)}"
NO_IMAGE = "is not a PNG, JPEG, GIF or WebP image"


class Image(Struct, frozen=True):
    """Its content, the suffix of its kind, and what the user calls it."""

    name: str
    kind: str
    content: bytes

    @property
    def title(self) -> str:
        """Return it for a person."""
        return f"{self.name} ({self.kind}, {size_text(len(self.content))})"


def image_of(name: str, content: bytes) -> Image:
    """Return the image with this content; raise RefusedError if it is not one."""
    if len(content) > MOST_BYTES:
        raise RefusedError(TOO_LARGE, where=name)
    kind = next((kind for magic, kind in KINDS.items() if content.startswith(magic)), "")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "webp"
    if not kind:
        raise RefusedError(NO_IMAGE, where=name)
    return Image(name, kind, content)


def read_image(path: str) -> Image:
    """Read an image file; raise RefusedError. No link is followed: the agent could have put it into the project."""
    with tree.opened(_without_system_link(path)) as place:
        tree.require_sendable(place)
        try:
            handle = os.open(place.name, tree.REGULAR, dir_fd=place.folder)
        except OSError as error:
            raise RefusedError((error.strerror or str(error)).lower(), where=path) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise RefusedError("is not a regular file", where=path)
            with os.fdopen(handle, "rb", closefd=False) as file:
                return image_of(path, file.read(MOST_BYTES + 1))
        finally:
            os.close(handle)


def _without_system_link(path: str) -> str:
    """Return the path with a link of the system at its beginning resolved, such as /var or /tmp on macOS."""
    first, _, rest = path[1:].partition("/")
    top = f"/{first}"
    if rest and os.path.islink(top) and os.lstat(top).st_uid == 0:
        return f"{os.path.realpath(top)}/{rest}"
    return path
