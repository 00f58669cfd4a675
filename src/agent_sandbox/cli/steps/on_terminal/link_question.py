"""Ask before a program in the sandbox opens a web page in the user's browser."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_sandbox.runtime.host.process import leave_running
from agent_sandbox.runtime.host.program_path import program_path
from agent_sandbox.runtime.terminal.clipboard_filter import copy_sequence

# Only the characters of RFC 3986, and a lower-case name with a dot as the host. So there is no user name in front of
# it, no address in any spelling, no letter of another script, and nothing that browsers read differently, such as `\`.
LINK = re.compile(
    r"https?://(?P<host>(?:[a-z0-9-]+\.)+(?!localhost\b)[a-z][a-z0-9-]*)(?::[0-9]{1,5})?"
    r"(?:[/?#][A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)?"
)
WIDEST = 100
OPENERS = ("wslview", "xdg-open")
KEYS = (
    "  y  open it",
    "  c  copy the address to your clipboard",
    "  n  do not open it",
    "  x  do not open it, and do not ask again in this terminal",
)


def browse(url: str, *, project: Path, environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> None:
    """Open a URL with the program that is usual for it; no program of a project is run."""
    path = program_path(environ, project=project)
    for name in ("open",) if platform == "darwin" else OPENERS:
        if program := shutil.which(name, path=path):
            leave_running(("/usr/bin/env", f"PATH={path}", program, url))
            return


class LinkQuestion:
    """Holds the last URL until the user answers. `write` writes to the terminal, which has `rows`."""

    def __init__(
        self, name: str, *, browse: Callable[[str], None], write: Callable[[bytes], None], rows: Callable[[], int]
    ) -> None:
        self._name, self._browse, self._write, self._rows = name, browse, write, rows
        self._url = self._host = ""
        self._shows_all = self._refuses_all = False

    def hold(self, url: bytes) -> None:
        """Ask about this URL, and forget an earlier one; ignore what is not a plain one."""
        found = LINK.fullmatch(url.decode("ascii", "replace"))
        if found and not self._refuses_all:
            self._url, self._host = found[0], found["host"]

    @property
    def unanswered(self) -> str:
        """Return what to say if the program ends before the user has answered; empty if nothing waits."""
        return f"the program in {self._name} wanted to open a page of {self._host}" if self._url else ""

    def lines(self, columns: int) -> list[str]:
        """Return the question with the host and the whole URL, or that the URL does not fit on the screen."""
        if not self._url:
            return []
        width = min(columns, WIDEST) - 1
        room = max(width - 4, 1)
        parts = [f"  | {self._url[at : at + room]}" for at in range(0, len(self._url), room)]
        host = [f"  {self._host[at : at + room]}" for at in range(0, len(self._host), room)]
        title = f"{self._name}: the sandbox wants to open a web page in your browser"
        shown = [title[:width], "", *host, "", *(key[:width] for key in KEYS), "", *parts]
        self._shows_all = len(shown) <= self._rows()
        if self._shows_all:
            return shown
        keys = ("Its address does not fit: make the window larger, or press:", *KEYS[2:])
        return [title[:width], "", *(key[:width] for key in keys)]

    def signal(self) -> bytes:
        """Return nothing: a page does not ring."""
        return b""

    def press(self, key: str) -> None:
        """Open for "y" and copy for "c", if the whole URL is shown; forget it for the other keys that are shown."""
        if key in {"y", "c"} and not self._shows_all:
            return
        if key == "y":
            self._browse(self._url)
        elif key == "c":
            self._write(copy_sequence(self._url.encode()))
        if key in {"y", "c", "n", "x", "escape"}:
            self._url = ""
        self._refuses_all = self._refuses_all or key == "x"
