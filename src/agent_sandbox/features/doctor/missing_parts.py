"""Report everything that is missing before a stack can start, with the messages of `doctor` and `up`."""

from pathlib import Path

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.features.doctor.table import engine_problems
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.problems import Problem, UserError


def missing_parts() -> tuple[Problem, ...]:
    """Return what is missing to build and start a stack: the command, the engine, its plugins."""
    return engine_problems(Machine(path=None, cwd=Path.cwd(), driver=driver()))


def report_missing_engine() -> None:
    """Print what is still missing for a start; an engine that answers is enough to print nothing."""
    if not driver().host().answers:
        for problem in missing_parts():
            say(f"  before that, {problem.where}: {problem.what}\n    hint: {problem.hint}")


def require_all_parts() -> None:
    """Raise UserError if anything is missing."""
    if missing := missing_parts():
        raise UserError(missing)
