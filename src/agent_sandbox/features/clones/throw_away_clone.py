"""Remove a stack, or a clone whose commits are fetched first, as soon as the run that it was made for has ended."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from msgspec import Struct

from agent_sandbox.cli.terminal.output import say, say_problems
from agent_sandbox.counted import counted
from agent_sandbox.engines.verbs import Destroy, Down
from agent_sandbox.features.clones.clone_fetch import fetch_clone, fetched_lines
from agent_sandbox.features.clones.fetch import one_at_a_time
from agent_sandbox.features.clones.fetched import Fetched
from agent_sandbox.features.clones.forget_project import forget_project
from agent_sandbox.features.review.changes import Baseline, take
from agent_sandbox.features.stack.execute import backend, driver, execute
from agent_sandbox.host.process import handled
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import Clone, clone_at, forget_clone, name_in, path_option
from agent_sandbox.project.installed import has_stack, open_project
from agent_sandbox.project.project import Project

# CI systems send several signals. Only the first ends the run; later, only Ctrl-C interrupts the fetch.
IGNORED_WHILE_FETCHING = (signal.SIGTERM, signal.SIGHUP)
TAKEN_OVER = "the clone is kept: another command has filled it meanwhile"


class ThrowAwayClone(Struct):
    """A clone that is made for one run.

    Once `fetch` was called, `fetched` has what it brought, `failed` says whether some commits could not be fetched, and
    `interrupted` whether Ctrl-C stopped it.
    """

    clone: Clone
    fetched: Fetched | None = None
    failed: bool = False
    interrupted: bool = False
    _asked: bool = False

    def fetch(self) -> Fetched | None:
        """Stop the clone's stack and fetch its commits, the first time. Print why that failed.

        Once the stack is stopped, Ctrl-C stops the fetch; other signals do not. The clone is then kept.
        """
        if self._asked:
            return self.fetched
        self._asked = self.failed = True
        with handled(signal.SIG_IGN, IGNORED_WHILE_FETCHING):
            try:
                self.failed = not self._fetch()
            except UserError as error:
                say_problems(error.problems)
            except KeyboardInterrupt:
                self.interrupted = True
        return self.fetched

    def _fetch(self) -> bool:
        """Return whether no commit is left."""
        with handled(signal.SIG_IGN):
            clone = clone_at(self.clone.root, os.environ)
            if clone is None or not clone.started:
                return True  # nothing of the repository is in it
            execute(backend().plan(open_project(clone.root, cwd=clone.root), Down()), quiet=True)
        self.fetched = fetch_clone(clone)
        return not self.fetched.status.listing.refused

    @property
    def is_kept(self) -> bool:
        """Whether removing it would lose work."""
        return self.failed or (self.fetched is not None and not self.fetched.has_all)

    def remove(self, *, quiet: bool) -> None:
        """Remove the clone with its stack; raise UserError if another command uses it."""
        with one_at_a_time(self.clone):
            now = clone_at(self.clone.root, os.environ)
            if now and now.started and self.fetched is None:
                raise UserError([Problem(where=now.name, what=TAKEN_OVER, hint="agent-sandbox fetch")])
            if not has_stack(self.clone.root, cwd=self.clone.root):
                forget_clone(self.clone)
                return
            project = open_project(self.clone.root, cwd=self.clone.root)
            execute(backend().plan(project, Destroy()), quiet=quiet)
            forget_project(project, self.clone)


@contextmanager
def fetched_and_removed(clone: Clone, *, quiet: bool = False) -> Iterator[ThrowAwayClone]:
    """Fetch what the new clone has when the block ends, however it ends, and remove the clone.

    A clone with work that is not fetched then is kept.
    """
    throwing = ThrowAwayClone(clone)
    with handled(interrupt):
        try:
            yield throwing
        finally:
            throwing.fetch()
            with handled(signal.SIG_IGN):
                _end(throwing, quiet=quiet)
            if throwing.interrupted:
                raise KeyboardInterrupt


def _end(throwing: ThrowAwayClone, *, quiet: bool) -> None:
    fetched, clone = throwing.fetched, throwing.clone
    if fetched and not quiet:
        for line in fetched_lines(fetched):
            say(line)
    if not throwing.is_kept:
        throwing.remove(quiet=quiet)
        return
    project, own = (path_option(root, os.environ, cwd=Path.cwd()) for root in (clone.project, clone.root))
    why = ": fetching its commits was interrupted" if throwing.interrupted else " has work that was not fetched"
    say(("kept:", "warn"), f" the clone {clone.name}{why}")
    if throwing.interrupted:
        say(f"  to fetch them: agent-sandbox fetch {name_in(clone, cwd=Path.cwd())}")
    say(f"  to continue it: agent-sandbox run{project} --clone --name {clone.name}")
    say(f"  to remove it: agent-sandbox destroy{own}")


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
