"""Apply a change of a project's secrets to its clones."""

import os
from collections.abc import Callable

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.clone_record import clones_of
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.runtime.protect.mount_checks import listed


def in_clones(project: Project, act: Callable[[Project], object], *, done: str) -> None:
    """Call `act` with the stack of each clone, and print `done` with their names; warn where it fails."""
    names = []
    for clone in clones_of(project.root, os.environ):
        if not clone.started:  # it has no volumes yet
            continue
        try:
            act(open_project(clone.root, cwd=clone.root))
            names.append(clone.name)
        except UserError as error:
            for problem in error.problems:
                say(("warning:", "warn"), f" {clone.name}: {problem}")
    if names:
        say(f"{done}: {listed(names)}")
