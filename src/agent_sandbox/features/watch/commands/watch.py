"""`agent-sandbox watch`."""

import os
import stat
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

from typer import Option

from agent_sandbox.cli.framework.errors import DONE, INTERRUPTED
from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.style import wants_colour
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.features.proxy.decisions import read_line
from agent_sandbox.features.traffic.audit_log import read_log
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.plain import HELP, Stacks, read_answers
from agent_sandbox.features.watch.watching.watched_stacks import Find, WatchedStacks, chosen_stacks
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project

SHOWN_BEFORE = 100  # requests from before, so that the screen does not start empty
NO_SCREEN = "the package textual is not installed, so this prints lines; install agent-sandbox with the extra `watch`"


def _can_answer() -> bool:
    """Return whether stdin can bring an answer: a terminal or a pipe, not a file or /dev/null."""
    return sys.stdin.isatty() or stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)


AskOption = Annotated[bool, Option(help="Ask about requests that no rule allows, even if the policy does not.")]
PlainOption = Annotated[bool, Option(help="Print lines, for screen readers and pipes.")]
AllOption = Annotated[bool, Option("--all", help="All your running stacks, not only this project's.")]


def watch(
    *, path: ProjectPath = None, all_stacks: AllOption = False, plain: PlainOption = False, ask: AskOption = False
) -> int:
    """Show requests as the proxy decides them, and answer those that wait for a person (`settings.ask`).

    It shows the project and its running clones. On a terminal it is a screen that begins with the last 100 requests, if
    agent-sandbox was installed with the extra `watch`; otherwise it prints lines.
    """
    first, find = chosen_stacks(path, all_stacks=all_stacks)
    if not plain and at_terminal():
        if find_spec("textual"):
            return _on_screen(first, find, asks=ask)
        say(NO_SCREEN)
    return _in_lines(first, find, asks=ask)


def _in_lines(first: Sequence[Project], find: Find, *, asks: bool) -> int:
    shown = Stacks()
    watched = WatchedStacks(shown.connect, answers=_can_answer(), asks=asks)
    for line in HELP:
        say(line)
    threading.Thread(target=read_answers, args=(sys.stdin, shown.command, watched.end), daemon=True).start()
    try:
        watched.follow(first, find)
    except KeyboardInterrupt:
        watched.end()
        return INTERRUPTED
    return DONE


def _last_records(project: Project) -> Sequence[Mapping[str, Any]]:
    """Return the last records of the audit log, oldest first."""
    lines: list[str] = []
    read_log(project, lines.append, "--tail", str(SHOWN_BEFORE))
    return [record for line in lines if (record := read_line(line)) is not None]


def _on_screen(first: Sequence[Project], find: Find, *, asks: bool) -> int:
    from agent_sandbox.features.watch.watching.screen import WatchScreen  # noqa: PLC0415 - takes half a second to import

    screen = WatchScreen(colours=wants_colour(sys.stdout, os.environ))

    def connect(project: Project) -> Connection:
        report, lost, ports = (partial(one, project.name) for one in (screen.report, screen.lost, screen.report_ports))
        connection = Connection(project, on_report=report, on_lost=lost, on_ports=ports)
        screen.add(project.name, connection)
        with suppress(UserError):  # the log is not needed to watch
            screen.begin(project.name, _last_records(project))
        return connection

    watched = WatchedStacks(connect, answers=True, asks=asks)
    following = threading.Thread(target=watched.follow, args=(first, find), daemon=True)
    screen.call_later(following.start)
    try:
        screen.run()
    finally:
        watched.end()
    return DONE
