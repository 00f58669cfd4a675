"""`run --ask`: run the agent on this terminal, and show questions about its requests over it."""

import os
import threading
from functools import partial

from agent_sandbox.backends.plan import HandOver
from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.execute import backend
from agent_sandbox.cli.steps.watching.connection import Connection
from agent_sandbox.cli.steps.watching.overlay import Overlay
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.tty import entering
from agent_sandbox.runtime.host.attached import run_attached
from agent_sandbox.runtime.host.pty_session import PtySession

HOW = "requests that no rule allows wait for your answer: this terminal rings and asks"


def run_asking(project: Project, *command: str) -> int:
    """Run a command in the agent container, ask about its requests, and return its exit code."""
    plan = backend().plan(project, entering(*command, session=os.urandom(8).hex()))
    (step,) = (step for step in plan if isinstance(step, HandOver))
    program = partial(run_attached, step.argv, cwd=step.cwd, pass_signal=step.pass_signal)
    overlay = Overlay(project.name, changed=lambda: session.wake())  # noqa: PLW0108 - it is made below
    session = PtySession(overlay)
    connection = overlay.connection = Connection(project, on_report=overlay.report, on_lost=overlay.lost)
    asking = threading.Thread(target=connection.watch, kwargs={"answers": True, "asks": True}, daemon=True)
    say(HOW)
    try:
        return session.run(program, on_start=asking.start)
    finally:
        connection.end()
