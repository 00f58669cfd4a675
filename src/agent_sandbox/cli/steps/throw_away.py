"""Remove a stack as soon as the run that it was started for has ended."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from agent_sandbox.backends.project import Project
from agent_sandbox.backends.verbs import Destroy
from agent_sandbox.cli.steps.execute import backend, driver, execute
from agent_sandbox.counted import counted
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.process import handled
from agent_sandbox.runtime.review.baseline import Baseline
from agent_sandbox.runtime.review.changes import take


@contextmanager
def thrown_away(project: Project, *, build: Callable[[], object], quiet: bool = False) -> Iterator[Baseline]:
    """Remove the project's stack with its volumes when the block ends, however it ends.

    Yield the project's files as they are before the stack starts. Raise UserError if the engine has anything of the
    stack already: it could contain state that is still needed. That is checked again after `build`, which may take
    minutes.
    """
    _require_nothing(project)
    build()
    _require_nothing(project)
    with handled(interrupt):
        try:
            yield take(project.root)
        finally:
            with handled(signal.SIG_IGN):  # CI systems send several signals
                execute(backend().plan(project, Destroy()), quiet=quiet)


def _require_nothing(project: Project) -> None:
    things = driver().leftovers(project.name)
    if found := [counted(len(names), kind.removesuffix("s")) for kind, names in things.items() if names]:
        what = f"this project has a sandbox, and --rm would remove its state: {', '.join(found)}"
        hint = "leave out --rm, use another checkout, or remove it first: agent-sandbox destroy"
        raise UserError([Problem(where=project.name, what=what, hint=hint)])


def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal that asks the command to end as Ctrl-C is handled."""
    raise KeyboardInterrupt(signal.Signals(number).name)
