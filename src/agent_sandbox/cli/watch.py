"""`agent-sandbox watch`."""

import os
import stat
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.steps.watching.box import Box
from agent_sandbox.cli.steps.watching.plain import HELP, Plain, read_answers
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.runtime.project.installed import open_project


def _can_answer() -> bool:
    """Return whether stdin can bring an answer: a terminal or a pipe, not a file or /dev/null."""
    return sys.stdin.isatty() or stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)


PlainOption = Annotated[bool, typer.Option("--plain", help="Print lines, for screen readers and pipes.")]


def watch(*, path: ProjectPath = None, plain: PlainOption = False) -> int:  # noqa: ARG001 - the only view so far
    """Show requests as the proxy decides them, and answer those that wait for a person (`settings.ask`)."""
    project = open_project(path, cwd=Path.cwd())
    screen = Plain()
    box = Box(project, on_report=screen.report, on_lost=screen.lost)
    for line in HELP:
        say(line)
    threading.Thread(target=read_answers, args=(sys.stdin, screen, box), daemon=True).start()
    try:
        box.watch(answers=_can_answer())
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE
