"""Run a project's setup script in its agent container, for `up` and `run`."""

import hashlib
import os
from pathlib import Path

from agent_sandbox.backends.plan import Plan, RunCommand
from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import SetUp
from agent_sandbox.cli.steps.execute import backend, driver
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.project.clone_record import path_option

AGAIN = "agent-sandbox up{0} tries again; the stack runs, so you can look around with agent-sandbox shell{0}"
OURS, ERROR = "agent-sandbox: ", "error: "
MOST_LINES = 10


def setup_plan(project: Project) -> Plan:
    """Return the step that runs the trusted script once in each container, or none."""
    text = project.made_of.get(project.setup)
    if text is None:
        return ()
    return backend().plan(project, SetUp(script=project.setup, digest=hashlib.sha256(text.encode()).hexdigest()))


def run_setup(project: Project, *, quiet: bool) -> None:
    """Run the script and show its output; raise UserError if it fails. The script ends when this process does."""
    for step in (step for step in setup_plan(project) if isinstance(step, RunCommand)):
        done = driver().watch(step, on_line=(lambda _line: None) if quiet else _show)
        if done.code:
            raise UserError([_problem(project, done.out.splitlines(), quiet=quiet)])


def _show(line: str) -> None:
    if not line.startswith(f"{OURS}{ERROR}"):
        say(line.removeprefix(OURS) if line.startswith(OURS) else f"  {line}")


def _problem(project: Project, lines: list[str], *, quiet: bool) -> Problem:
    """Return the last line of output as the problem, with `quiet` also the lines before it, which were not shown."""
    *before, why = [line for line in lines if line.strip()] or ["no output"]
    what = why.removeprefix(OURS).removeprefix(ERROR)
    said = "".join(f"\n  {line}" for line in before[-MOST_LINES:] if not line.startswith(OURS)) if quiet else ""
    what += ":" if said else ""
    option = path_option(project.root, os.environ, cwd=Path.cwd())
    return Problem(where=project.setup, what=what + said, hint=AGAIN.format(option))
