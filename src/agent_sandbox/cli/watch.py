"""`agent-sandbox watch`."""

import os
import stat
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Terminal
from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.framework.parameters import Option
from agent_sandbox.cli.steps.execute import require_running
from agent_sandbox.cli.steps.watching.connection import Connection
from agent_sandbox.cli.steps.watching.plain import HELP, Plain, read_answers
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.tty import terminal
from agent_sandbox.runtime.project.installed import open_project

NO_SCREEN = "the package textual is not installed, so this prints lines; install agent-sandbox with the extra `watch`"


def _can_answer() -> bool:
    """Return whether stdin can bring an answer: a terminal or a pipe, not a file or /dev/null."""
    return sys.stdin.isatty() or stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)


AskOption = Annotated[bool, Option(help="Ask about requests that no rule allows, even if the policy does not.")]
PlainOption = Annotated[bool, Option(help="Print lines, for screen readers and pipes.")]


def watch(*, path: ProjectPath = None, plain: PlainOption = False, ask: AskOption = False) -> int:
    """Show requests as the proxy decides them, and answer those that wait for a person (`settings.ask`).

    On a terminal it is a screen, if agent-sandbox was installed with the extra `watch`; otherwise it prints lines.
    """
    project = open_project(path, cwd=Path.cwd())
    require_running(project, "proxy")
    if not plain and terminal() is Terminal.ATTACHED:
        if find_spec("textual"):
            return _on_screen(project, asks=ask)
        say(NO_SCREEN)
    return _in_lines(project, asks=ask)


def _in_lines(project: Project, *, asks: bool) -> int:
    screen = Plain()
    connection = Connection(project, on_report=screen.report, on_lost=screen.lost)
    for line in HELP:
        say(line)
    threading.Thread(target=read_answers, args=(sys.stdin, screen, connection), daemon=True).start()
    try:
        connection.watch(answers=_can_answer(), asks=asks)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _on_screen(project: Project, *, asks: bool) -> int:
    from agent_sandbox.cli.steps.watching.screen import WatchScreen  # noqa: PLC0415 - takes half a second to import

    screen = WatchScreen(project.name)
    connection = screen.connection = Connection(project, on_report=screen.report, on_lost=screen.lost)
    watching = threading.Thread(target=connection.watch, kwargs={"answers": True, "asks": asks}, daemon=True)
    screen.call_later(watching.start)
    try:
        screen.run()
    finally:
        connection.end()
    return DONE
