"""Give the agent an image that the user pastes or drops: ask, copy it into the sandbox, and paste its path there."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

from msgspec import Struct

from agent_sandbox.features.copying.tree import RefusedError
from agent_sandbox.features.session.clipboard.image import Image, read_image
from agent_sandbox.features.session.clipboard.paste_reader import Paste, PasteReader, image_paths, pasted
from agent_sandbox.printable import printable

WIDEST = 100
FOLDER = "/tmp"  # noqa: S108 - in the sandbox, where only the agent is


class Pending(Struct, frozen=True):
    """A paste that waits: for its images to be read, for the user, or for the copy."""

    paste: Paste
    images: Sequence[Image] = ()
    problem: str = ""
    copying: bool = False


def start(work: Callable[[], None]) -> None:
    """Do this in another thread."""
    Thread(target=work, daemon=True).start()


class ImageQuestion:
    """Asks about one paste at a time; what the user types after it waits.

    `copy` writes a file in the sandbox and raises RefusedError; `clipboard` returns its image. `changed` is called from
    another thread when something is to be shown or typed.
    """

    def __init__(
        self,
        name: str,
        *,
        copy: Callable[[bytes, str], object],
        clipboard: Callable[[], Image | None],
        changed: Callable[[], None],
        start: Callable[[Callable[[], None]], None] = start,
    ) -> None:
        self._name, self._copy, self._clipboard = name, copy, clipboard
        self._changed, self._start = changed, start
        self._reader = PasteReader()
        self._waiting: deque[bytes | Paste] = deque()
        self._pending: Pending | None = None
        self._done: SimpleQueue[tuple[Pending, Pending | bytes]] = SimpleQueue()
        self._off = False

    def typed(self, data: bytes) -> bytes:
        """Return what the program gets of what the user typed, and of what has waited."""
        self._take_results()
        self._waiting.extend(self._reader.feed(data))
        out = bytearray()
        while self._waiting and self._pending is None:
            one = self._waiting.popleft()
            if isinstance(one, bytes):
                out += one
            elif self._off or not self._considers(one):
                out += one.sent
        return bytes(out)

    def _considers(self, paste: Paste) -> bool:
        """Begin to read the images of a paste; return whether it may have any."""
        if not paste.text:
            self._in_background(Pending(paste), lambda: self._from_clipboard(paste))
            return True
        paths = image_paths(paste.text.decode("utf-8", "replace"))
        if not any(map(os.path.lexists, paths)):
            return False
        try:
            self._pending = Pending(paste, [read_image(path) for path in paths])
        except RefusedError as error:
            self._pending = Pending(paste, problem=str(error))
        return True

    def _in_background(self, pending: Pending, work: Callable[[], Pending | bytes]) -> None:
        """Do this in another thread. If the paste still waits then, the result takes its place."""
        self._pending = pending

        def working() -> None:
            result: Pending | bytes = Pending(pending.paste, problem="it failed")
            try:
                result = work()
            except RefusedError as error:
                result = Pending(pending.paste, problem=str(error))
            finally:
                self._done.put((pending, result))
                self._changed()

        self._start(working)

    def _take_results(self) -> None:
        while not self._done.empty():
            pending, result = self._done.get()
            if pending is not self._pending:
                continue  # answered meanwhile
            if isinstance(result, Pending):
                self._pending = result
            else:
                self._resolve(result)

    def _resolve(self, data: bytes) -> None:
        """Let the program have this in place of the paste."""
        self._waiting.appendleft(data)
        self._pending = None

    def _from_clipboard(self, paste: Paste) -> Pending | bytes:
        found = self._clipboard()
        return Pending(paste, (found,)) if found else paste.sent

    def _copied(self, images: Sequence[Image]) -> bytes:
        paths = [f"{FOLDER}/pasted-{os.urandom(8).hex()}.{image.kind}" for image in images]
        for image, path in zip(images, paths, strict=True):
            self._copy(image.content, path)
        return pasted(" ".join(paths))

    def lines(self, columns: int) -> list[str]:
        """Return the question, or what the user should know about the paste."""
        self._take_results()
        pending = self._pending
        if pending is None or not (pending.images or pending.problem):
            return []
        width = min(columns, WIDEST) - 1
        title, about, keys = _question(pending)
        title = f"{self._name}: {title}"
        return [
            title[:width],
            "",
            *(f"  {_shortened(printable(one), width - 2)}" for one in about),
            "",
            *(key[:width] for key in keys),
        ]

    def signal(self) -> bytes:
        """Return nothing: the user has just pasted."""
        return b""

    def press(self, key: str) -> None:
        """Answer the question."""
        pending = self._pending
        if pending is None:
            return
        if key == "y" and pending.images and not pending.copying:
            copying = Pending(pending.paste, pending.images, copying=True)
            self._in_background(copying, lambda: self._copied(pending.images))
        elif key in {"n", "x", "escape"}:
            self._off = self._off or key == "x"
            self._resolve(pending.paste.sent)


def _question(pending: Pending) -> tuple[str, Sequence[str], Sequence[str]]:
    """Return the title, what it is about, and the keys."""
    instead = "paste the text as it is" if pending.paste.text else "do not paste it"
    if pending.problem:
        return "the agent cannot get this image", (pending.problem,), (f"  n  {instead}",)
    title = f"give the agent {'these images' if len(pending.images) > 1 else 'this image'}?"
    about = [image.title for image in pending.images]
    if pending.copying:
        return title, about, ("  copying ...", f"  n  {instead}")
    return (
        title,
        about,
        (
            "  y  copy into the sandbox, and paste the path that it has there",
            f"  n  {instead}",
            f"  x  {instead}, and do not ask again in this terminal",
        ),
    )


def _shortened(text: str, room: int) -> str:
    """Return the text with its middle left out if it is too long: the end has the name of the file."""
    if len(text) <= room:
        return text
    half = max(4, (room - 3) // 2)
    return f"{text[:half]}...{text[-half:]}"
