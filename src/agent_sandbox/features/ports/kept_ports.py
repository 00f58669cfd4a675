"""Open the ports in the project file while `run` or `shell` is attached."""

import os
import sys

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.host.process import leave_running
from agent_sandbox.project.project import Project
from agent_sandbox.project.project_file import ports_of
from agent_sandbox.project.render.paths import PROJECT_FILE

KEEPER = "agent_sandbox.features.ports.ports_keeper"
LONGEST = 300


def keep_ports(project: Project) -> None:
    """Start a keeper if the project names ports, and print what it opened; it ends with this process.

    Only for someone at a terminal. The ports are those of the settings that the user trusts.
    """
    text = project.made_of.get(PROJECT_FILE, "")
    if not project.files or not at_terminal() or not ports_of(text):
        return
    ours, theirs = os.pipe()
    with os.fdopen(ours, encoding="utf-8", errors="replace") as said:
        try:
            leave_running((sys.executable, "-P", "-m", KEEPER, str(project.root), str(os.getpid())), stdout=theirs)
        finally:
            os.close(theirs)
        for line in said:
            say(line.rstrip("\n")[:LONGEST])
