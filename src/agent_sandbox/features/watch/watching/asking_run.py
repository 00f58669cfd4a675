"""`run --ask`: run the agent on this terminal, and show questions about its requests over it."""

import threading

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.session.on_terminal.session import TerminalSession
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.overlay import Overlay
from agent_sandbox.project.project import Project

HOW = "requests that no rule allows wait for your answer: this terminal rings and asks"


def run_asking(project: Project, *command: str) -> int:
    """Run a command in the agent container, ask about its requests, and return its exit code."""
    overlay = Overlay(project.name, changed=lambda: session.wake())  # noqa: PLW0108 - it is made below
    session = TerminalSession(project, [overlay], images=True)
    connection = overlay.connection = Connection(project, on_report=overlay.report, on_lost=overlay.lost)
    asking = threading.Thread(target=connection.watch, kwargs={"answers": True, "asks": True}, daemon=True)
    say(HOW)
    try:
        return session.run(*command, on_start=asking.start)
    finally:
        connection.end()
