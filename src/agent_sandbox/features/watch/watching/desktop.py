"""Desktop notifications about new questions: few, and only where there is a desktop."""

import html
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.host.process import leave_running
from agent_sandbox.host.program_path import program_path

TITLE = "agent-sandbox"
PAUSE_SECONDS = 15.0
LONGEST = 100
# The text is an argument, never part of the script.
SCRIPT = (
    "-e",
    "on run argv",
    "-e",
    f'display notification (item 1 of argv) with title "{TITLE}"',
    "-e",
    "end run",
)


class Desktop:
    """Shows at most one notification in 15 seconds, because an agent can cause any number of questions."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        platform: str = sys.platform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._command = _command(environ, platform)
        self._known: set[int] = set()
        self._quiet_until = 0.0

    def report(self, state: State) -> None:
        """Notify about new questions."""
        new = [one for one in state.questions if one.id not in self._known]
        self._known = {one.id for one in state.questions}
        if not self._command or not new or self._clock() < self._quiet_until:
            return
        self._quiet_until = self._clock() + PAUSE_SECONDS
        leave_running((*self._command, _text(new)))


def _text(new: Sequence[Question]) -> str:
    first = f"{new[0].method} {new[0].host}"[:LONGEST]
    # Notification servers may read tags.
    return html.escape(f"{first} waits for you" if len(new) == 1 else f"{first} and {len(new) - 1} more wait for you")


def _command(environ: Mapping[str, str], platform: str) -> tuple[str, ...]:
    path = program_path(environ)
    if platform == "darwin":
        found = shutil.which("osascript", path=path)
        return (found, *SCRIPT) if found else ()
    if "DISPLAY" not in environ and "WAYLAND_DISPLAY" not in environ:
        return ()
    found = shutil.which("notify-send", path=path)
    return (found, f"--app-name={TITLE}", "--", TITLE) if found else ()
