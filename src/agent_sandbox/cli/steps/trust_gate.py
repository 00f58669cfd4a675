"""Ask whether the user trusts a project's settings before any of them is used."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.policy.policy_file import shown
from agent_sandbox.cli.terminal.excerpt import diff_lines
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.paths import POLICY, SHARED
from agent_sandbox.runtime.project.installed import find_project, open_project, parse_project, require_own
from agent_sandbox.runtime.project.root import find_root, lacks_clone_files
from agent_sandbox.runtime.project.trust_snapshot import Standing, look
from agent_sandbox.runtime.project.trust_store import Store, open_store
from agent_sandbox.runtime.trust.prompt import Question, changes, question_about

# Beyond this many lines, print only their number.
MOST = 60


def open_trusted(path: Path | None, *, cwd: Path, yes: str = "") -> Project:
    """Return the project once the user trusts its current settings; `yes` is their fingerprint."""
    root = find_checked_in(path, cwd=cwd).root
    store = open_store(os.environ)
    now, trusted = current_settings(root, store)
    if changes(now, trusted):
        _require_readable(shown(root / POLICY, cwd=cwd))
        agree(question_of(now, trusted), yes=yes)
        store.save(now)
        if changes(look(root, os.environ), now):
            what, hint = "it changed while you looked at it", "run the command again to see the difference"
            raise UserError([Problem(where=str(root), what=what, hint=hint)])
    return open_project(root, cwd=cwd)


def find_checked_in(path: Path | None, *, cwd: Path) -> Project:
    """Return the project; in a new clone of one that is checked in, write the clone's own files first."""
    root = find_root(path, cwd=cwd)
    if root is not None and lacks_clone_files(root):
        _write_clone_files(root)
    return find_project(path, cwd=cwd)


def current_settings(root: Path, store: Store) -> tuple[Standing, Standing | None]:
    """Return the project's settings and the trusted ones; changed choices, such as pulled ones, are applied first."""
    now, trusted = look(root, os.environ), store.load(root)
    chosen, before = now.files.get(SHARED), trusted.files.get(SHARED) if trusted else None
    if chosen not in (None, before) and _write_clone_files(root):
        now = look(root, os.environ)
    return now, trusted


def _write_clone_files(root: Path) -> bool:
    from agent_sandbox.runtime.init.clone_files import write_clone_files  # noqa: PLC0415 - renders; most runs need none

    written = write_clone_files(root, os.environ)
    if written:
        say(f"wrote {', '.join(written)} for this clone")
    return bool(written)


def _require_readable(policy: Path) -> None:
    """Raise UserError if the policy is invalid: trust in it would have no clear meaning."""
    from agent_sandbox.runtime.policies.layers import load_here  # noqa: PLC0415 - most runs ask nothing

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


def question_of(now: Standing, trusted: Standing | None) -> Question:
    """Return the trust question for a project; raise UserError if its stack belongs to another directory."""
    from agent_sandbox.runtime.trust.expected_files import written_here  # noqa: PLC0415 - renders; most runs ask nothing

    project = parse_project(now.root, now.files, files=())
    require_own(project)
    return question_about(now, trusted, written_here(now.root, project.agents, os.environ))


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
    sys.stderr.write("Trust this? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UserError([Problem(where=root, what="you did not trust it, so nothing was started")])


def _refuse(root: str, question: Question) -> NoReturn:
    what = f"not trusted yet: {', '.join(question.changed)}; there is no terminal to ask on"
    hint = f"run agent-sandbox trust at a terminal; or, after a review, use --yes {question.fingerprint}"
    raise UserError([Problem(where=root, what=what, hint=hint)])


def as_lines(question: Question) -> Iterator[str]:
    """Yield the question as text."""
    root = str(question.standing.root)
    yield styled((root, "title"), " asks for more than you trust:" if question.known else " asks for this:")
    # "nothing" is printed only in the first question, not after each change.
    more, without = ("also ", ()) if question.known else ("", ("nothing",))
    yield from _block(f"{more}reaches", question.reaches or without)
    yield from _block(f"{more}sets", question.sets)
    yield from _block(f"{more}mounts", question.mounts or without)
    yield from _block(f"{more}injects", [f"{name}, from your shell" for name in question.injects] or without)
    yield from _block("editor", question.editor)
    yield from _block("note", question.notes)
    # Never shortened: a hidden line could be the important one.
    yield from ("", *diff_lines("\n".join(question.differences)), "") if question.differences else ()
    yield f"fingerprint {question.fingerprint}"


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(_bounded(lines)):
        # A name may contain a line end: it is escaped, as in every styled line.
        yield styled("  ", (f"{'' if number else title:<13}", "title"), f" {line}")


def _bounded(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST
    return [*lines[:MOST], *([f"... and {more} more lines: see the file"] if more > 0 else [])]
