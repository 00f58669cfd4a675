"""Ask whether the user trusts a project's settings before any of them is used."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from agent_sandbox.cli.terminal.output import diff_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.trust.prompt import Question, changes, question_about
from agent_sandbox.host.files import project_lock
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import find_project, open_project, parse_project, require_own
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import POLICY, SHARED
from agent_sandbox.project.root import find_root, lacks_clone_files
from agent_sandbox.project.trust_snapshot import Standing, look
from agent_sandbox.project.trust_store import Store, open_store

if TYPE_CHECKING:
    from agent_sandbox.features.stack.init.initialise import Prepared

# Beyond this many lines, print only their number.
MOST = 60


class Settings(Struct, frozen=True, kw_only=True):
    """A project's settings and the trusted ones. `planned` has files that are in `now` but not written yet, if any.

    They are written only once the user trusts them, because the engine's own command starts whatever is there.
    """

    now: Standing
    trusted: Standing | None
    planned: "Prepared | None"

    def write_planned(self) -> None:
        """Write the planned files."""
        if self.planned and self.planned.written:
            self.planned.write()
            if self.planned.texts:
                say(f"wrote {', '.join(self.planned.texts)} for this clone")


def open_trusted(path: Path | None, *, cwd: Path, yes: str = "") -> Project:
    """Return the project once the user trusts its current settings; `yes` is their fingerprint."""
    root = checked_in_root(path, cwd=cwd)
    store = open_store(os.environ)
    settings = current_settings(root, store)
    if changes(settings.now, settings.trusted):
        _require_readable(shown(root / POLICY, cwd=cwd))
        agree(question_of(settings), yes=yes)
        remember(settings.now, store)
    else:
        settings.write_planned()
    return open_project(root, cwd=cwd)


def remember(now: Standing, store: Store) -> None:
    """Trust these settings and write the planned files; raise UserError if the settings have changed meanwhile."""
    with project_lock(now.root, state_directory(os.environ)):
        again = current_settings(now.root, store)
        store.save(now)
        if changes(again.now, now):
            what, hint = "it changed while you looked at it", "run the command again to see the difference"
            raise UserError([Problem(where=str(now.root), what=what, hint=hint)])
        again.write_planned()


def checked_in_root(path: Path | None, *, cwd: Path) -> Path:
    """Return the project's directory; also for a new clone, which has no generated files yet."""
    root = find_root(path, cwd=cwd)
    return root if root is not None and lacks_clone_files(root) else find_project(path, cwd=cwd).root


def find_checked_in(path: Path | None, *, cwd: Path) -> Project:
    """Return the project in the same way; for a new clone, with the files that are planned."""
    now = current_settings(checked_in_root(path, cwd=cwd), open_store(os.environ)).now
    return parse_project(now.root, now.files, files=())


def current_settings(root: Path, store: Store) -> Settings:
    """Return the project's settings; in a new clone, or if pulled choices differ, with the files rendered from them."""
    trusted = store.load(root)
    if lacks_clone_files(root):
        return _with_planned(root, trusted)
    now = look(root, os.environ)
    chosen, before = now.files.get(SHARED), trusted.files.get(SHARED) if trusted else None
    return (
        Settings(now=now, trusted=trusted, planned=None) if chosen in (None, before) else _with_planned(root, trusted)
    )


def _with_planned(root: Path, trusted: Standing | None) -> Settings:
    from agent_sandbox.features.stack.init.initialise import plan_clone_files  # noqa: PLC0415 - renders; most runs need none

    planned = plan_clone_files(root, os.environ)
    now = look(root, os.environ, planned.written if planned else {})
    return Settings(now=now, trusted=trusted, planned=planned)


def _require_readable(policy: Path) -> None:
    """Raise UserError if the policy is invalid: trust in it would have no clear meaning."""
    from agent_sandbox.features.policy.layers import load_here  # noqa: PLC0415 - most runs ask nothing

    if os.path.exists(policy):
        load_here(policy, os.environ)


def open_known(path: Path | None, *, cwd: Path) -> Project:
    """Return the project for a command that uses none of its settings: trust in earlier ones is enough."""
    root = find_project(path, cwd=cwd).root
    known = open_store(os.environ).load(root)
    return open_project(root, cwd=cwd) if known else open_trusted(root, cwd=cwd)


def open_unasked(path: Path | None, *, cwd: Path) -> Project:
    """Return the project for a plan that is only printed; if it is not trusted, with its current files."""
    project = open_project(path, cwd=cwd)
    return project if project.files else find_project(path, cwd=cwd)


def question_of(settings: Settings) -> Question:
    """Return the trust question for a project; raise UserError if its stack belongs to another directory."""
    from agent_sandbox.features.trust.expected_files import written_here  # noqa: PLC0415 - renders; most runs ask nothing

    now = settings.now
    project = parse_project(now.root, now.files, files=())
    require_own(project)
    return question_about(now, settings.trusted, written_here(now.root, project.agents, os.environ))


def agree(question: Question, *, yes: str) -> None:
    """Return if the user agrees, else raise UserError; the right fingerprint skips the question."""
    if yes == question.fingerprint:
        return
    root = str(question.standing.root)
    for line in as_lines(question):
        say(line)
    if yes:
        what = f"fingerprint mismatch: the settings are not those of {yes}"
        raise UserError([Problem(where=root, what=what, hint=f"review them, then use --yes {question.fingerprint}")])
    if not sys.stdin.isatty():
        _refuse(root, question)
    if not agrees("Trust this?"):
        raise UserError([Problem(where=root, what="you did not trust it, so nothing was written or started")])


def _refuse(root: str, question: Question) -> NoReturn:
    what = f"not trusted yet: {', '.join(question.changed)}; there is no terminal to ask on"
    hint = f"run agent-sandbox trust at a terminal; or, after a review, use --yes {question.fingerprint}"
    raise UserError([Problem(where=root, what=what, hint=hint)])


def as_lines(question: Question) -> Iterator[str]:
    """Yield the question as text."""
    root = str(question.standing.root)
    # Never shortened: a hidden line could be the important one. The summary after it stays on the screen.
    yield from (*diff_lines("\n".join(question.differences)), "") if question.differences else ()
    yield styled((root, "title"), " asks for more than you trust:" if question.known else " asks for this:")
    # "nothing" is printed only in the first question, not after each change.
    more, without = ("also ", ()) if question.known else ("", ("nothing",))
    yield from _block(f"{more}reaches", question.reaches or without)
    yield from _block(f"{more}sets", question.sets)
    yield from _block(f"{more}mounts", question.mounts or without)
    yield from _block(f"{more}injects", [f"{name}, from your shell" for name in question.injects] or without)
    yield from _block("editor", question.editor)
    yield from _block("note", question.notes)
    yield f"fingerprint {question.fingerprint}"


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(_bounded(lines)):
        # A name may contain a line end: it is escaped, as in every styled line.
        yield styled("  ", (f"{'' if number else title:<13}", "title"), f" {line}")


def _bounded(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST
    return [*lines[:MOST], *([f"... and {counted(more, 'more line')}: see the file"] if more > 0 else [])]
