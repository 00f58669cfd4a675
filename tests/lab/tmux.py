"""A terminal of 80 by 24 in tmux: it runs a program, types keys, and returns the screen."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

SECONDS = 60.0


class Tmux:
    """One program on its own terminal. The screen stays after the program has ended."""

    def __init__(self, argv: Sequence[str], folder: Path, *, columns: int = 80, lines: int = 24) -> None:
        # The path of a socket must be short.
        self._place = tempfile.TemporaryDirectory(prefix="tmux-")
        self._tmux = ("tmux", "-f", "/dev/null", "-S", str(Path(self._place.name, "socket")))
        size = ("-x", str(columns), "-y", str(lines))
        # Before the program, so that the screen of one that ends at once stays, too.
        keep = ("set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "status", "off", ";")
        self._start = (*keep, "new-session", "-d", *size, "-c", str(folder), "--", *argv)

    def __enter__(self) -> Self:
        """Start the program."""
        self._run("start-server", ";", *self._start)
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and the terminal."""
        self._run("kill-server")
        self._place.cleanup()

    def _run(self, *words: str) -> str:
        return subprocess.run((*self._tmux, *words), check=True, capture_output=True, text=True).stdout

    def screen(self) -> str:
        """Return the text on the screen."""
        return self._run("capture-pane", "-p")

    def until(self, text: str, *, seconds: float = SECONDS) -> str:
        """Wait until this is on the screen; return the screen."""
        end = time.monotonic() + seconds
        while text not in (screen := self.screen()):
            assert time.monotonic() < end, f"not on the screen: {text!r}\n{screen}"
            # tmux 3.3 may miss the end of the program, and would never show it.
            os.kill(int(self._run("display-message", "-p", "#{pid}")), signal.SIGCHLD)
            time.sleep(0.05)
        return screen

    def type(self, text: str) -> None:
        """Type a text."""
        self._run("send-keys", "-l", "--", text)

    def press(self, key: str) -> None:
        """Press a key that has a name, such as `Enter`."""
        self._run("send-keys", key)
