"""Ask before a program in the sandbox opens a web page in the user's browser."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from agent_sandbox.engines.place import Role
from agent_sandbox.features.ports.forward import Forward, forward
from agent_sandbox.features.ports.live_ports import relay_in
from agent_sandbox.features.session.clipboard.clipboard_filter import copy_sequence
from agent_sandbox.features.session.on_terminal.image_question import start
from agent_sandbox.host.command import Command
from agent_sandbox.host.process import leave_running
from agent_sandbox.host.program_path import program_path
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project
from agent_sandbox.project.project_file import ports_of
from agent_sandbox.project.render.paths import PROJECT_FILE

# Only characters of RFC 3986 that mean nothing to a shell (`wslview` starts that of Windows), and as the host a
# lower-case name with a dot. This excludes user names, IP addresses in every spelling, letters of other scripts, what
# browsers read differently, such as `\`, and names of this machine and its network.
LINK = re.compile(
    r"https?://(?P<host>(?:[a-z0-9-]+\.)+(?!(?:localhost|localdomain|internal|local|lan|arpa)\b)[a-z][a-z0-9-]*)(?::[0-9]{1,5})?"
    r"(?:[/?#][A-Za-z0-9._~:/?#\[\]@&+,=%-]*)?"
)
# Where a sign-in sends the browser at its end: to a port of the sandbox, by the same number.
ANSWER = re.compile(
    r"[?&]redirect_ur[il]=http(?:://|%3A%2F%2F)(?:localhost|127\.0\.0\.1)(?::|%3A)([1-9][0-9]{3,4})(?![0-9])",
    re.IGNORECASE,
)
# The seconds for which that port is open: in all, and after an answer, so that it can be asked again.
LONGEST, GRACE = 600, 15
WIDEST = 100
OPENERS = ("wslview", "xdg-open")
KEYS = (
    "  y  open it",
    "  c  copy the address to your clipboard",
    "  n  do not open it",
    "  x  do not open it, and do not ask again in this terminal",
)


class Browser:
    """Opens pages on this machine, and for a while the ports of the sandbox that get their answers."""

    def __init__(self, project: Project) -> None:
        self._project, self._agent = project, Role(project=project, service="agent")
        # Those of the project file are open already.
        self._ports = {here for here, inside in ports_of(project.made_of.get(PROJECT_FILE, "")) if here == inside}

    def open(self, url: str, port: int) -> bool:
        """Open the port, if it is not 0, then the URL; return False if another program uses the port."""
        if port and port not in self._ports:
            self._ports.add(port)
            forget = partial(self._ports.discard, port)
            if not _is_opened(relay_in(self._agent), Forward(here=port, inside=port), ended=forget):
                return False
        browse(url, project=self._project.root)
        return True


def _is_opened(command: Command, wanted: Forward, *, ended: Callable[[], None]) -> bool:
    """Relay a port in a thread; return whether it has this number on both addresses, and close it if not.

    Close it, too, a moment after a connection was answered, and if none is. Calls `ended` once it is relayed no longer.
    """
    found: SimpleQueue[bool] = SimpleQueue()

    async def relay() -> None:
        def opened(one: Forward) -> None:
            if one != wanted:
                raise UserError([Problem(where=one.taken, what="is in use")])
            loop.call_later(LONGEST, relaying.cancel)
            found.put(item=True)

        def answered(_: Forward) -> None:
            loop.call_later(GRACE, relaying.cancel)

        loop = asyncio.get_running_loop()
        relaying = loop.create_task(forward(command, [wanted], opened=opened, answered=answered))
        await relaying

    def work() -> None:
        try:
            with suppress(UserError, OSError, asyncio.CancelledError):
                asyncio.run(relay())
        finally:
            ended()
            found.put(item=False)

    start(work)
    return found.get()


def browse(url: str, *, project: Path, environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> None:
    """Open a URL with the program that is usual for it; no program of a project is run."""
    path = program_path(environ, project=project)
    for name in ("open",) if platform == "darwin" else OPENERS:
        if program := shutil.which(name, path=path):
            leave_running(("/usr/bin/env", f"PATH={path}", program, url))
            return


class LinkQuestion:
    """Holds the last URL until the user answers. `write` writes to the terminal, which has `rows`.

    `browse` opens a port, unless it is 0, and then the URL; it returns False if the port is in use.
    """

    def __init__(
        self, name: str, *, browse: Callable[[str, int], bool], write: Callable[[bytes], None], rows: Callable[[], int]
    ) -> None:
        self._name, self._browse, self._write, self._rows = name, browse, write, rows
        self._url = self._host = self._about = ""
        self._port = 0
        self._shows_all = self._refuses_all = False

    def hold(self, url: bytes) -> None:
        """Ask about this URL, and forget an earlier one; ignore what is not a plain one."""
        found = LINK.fullmatch(url.decode("ascii", "replace"))
        if found and not self._refuses_all:
            self._url, self._host = found[0], found["host"]
            answer = ANSWER.search(self._url)
            self._port = int(answer[1]) if answer and 1024 <= int(answer[1]) < 65_536 else 0
            self._about = f"  y also opens port {self._port} of the sandbox here, for the answer" if self._port else ""

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
        about = [self._about[:width]] if self._about else []
        shown = [title[:width], "", *host, *about, "", *(key[:width] for key in KEYS), "", *parts]
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
        if key == "y" and not self._browse(self._url, self._port):
            self._about = f"  port {self._port} is in use on this machine: the sandbox would not get the answer"
            self._port = 0  # the next "y" opens only the page
            return
        if key == "c":
            self._write(copy_sequence(self._url.encode()))
        if key in {"y", "c", "n", "x", "escape"}:
            self._url = ""
        self._refuses_all = self._refuses_all or key == "x"
