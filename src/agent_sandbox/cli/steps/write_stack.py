"""Write a project's stack, for `init` and `run`."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.agents.together import sentence
from agent_sandbox.cli.steps.policy.resolve_services import resolve_named
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.languages import packages_for
from agent_sandbox.render.dotenv import assignments
from agent_sandbox.render.paths import DOTENV, POLICY
from agent_sandbox.render.reconcile import Change
from agent_sandbox.runtime.host.project_lock import project_lock
from agent_sandbox.runtime.host.settings import user_settings, write_settings
from agent_sandbox.runtime.host.user_dirs import state_directory
from agent_sandbox.runtime.init.initialise import InitOptions, Prepared, prepare
from agent_sandbox.runtime.init.orphaned_stack import orphaned_stack
from agent_sandbox.runtime.project.trust_snapshot import look
from agent_sandbox.runtime.project.trust_store import open_store
from agent_sandbox.runtime.protect.mount_checks import listed
from agent_sandbox.runtime.trust.auto_trust import remember
from agent_sandbox.runtime.trust.prompt import unseen_in
from agent_sandbox.stack.engine import FILES_VARIABLE


def write_stack(options: InitOptions, *, dry_run: bool = False, ask: bool = True) -> Prepared:
    """Write the stack unless a file conflicts, trust what was written, and return what was done.

    `ask` allows a question at the terminal about protections that would end. A dry run asks and writes nothing.
    """
    prepared = prepare(options, os.environ)
    if dry_run or prepared.conflicts:
        return prepared
    if ask and prepared.offered.languages and sys.stdin.isatty() and not _wants(prepared.offered.languages):
        options = replace(options, packages=())
        prepared = prepare(options, os.environ)
    if ask and (prepared.protection.lost or prepared.protection.kept):
        from agent_sandbox.cli.steps.protection_prompt import settle  # noqa: PLC0415 - rarely needed

        prepared = settle(options, prepared)
    store = open_store(os.environ)
    store.require_usable(prepared.project.resolve())  # before anything is written
    notes = (*prepared.notes, *orphaned_stack(prepared, store))
    with project_lock(prepared.project, state_directory(os.environ)):
        prepared.write()
        if prepared.workspace.settings:
            taken = user_settings(prepared.agents, os.environ)
            write_settings(Path(prepared.workspace.settings), taken.files)
        remember(store, prepared, look(prepared.project, os.environ))
    return replace(prepared, notes=(*notes, *resolve_named(prepared.project / POLICY), *_unseen(prepared.project)))


def _wants(languages: Mapping[str, Sequence[str]]) -> bool:
    """Ask whether to install the languages that the project's files show; an empty answer means yes."""
    from agent_sandbox.cli.terminal.question import answer_to  # noqa: PLC0415 - the first time only

    packages, files = ", ".join(packages_for(languages)), listed([*chain(*languages.values())])
    question = f"This project uses {sentence([*languages])} ({files}): install {packages} in its image? [Y/n]"
    return answer_to(question) in {"", "y", "yes"}


def require_no_conflict(prepared: Prepared) -> None:
    """Raise UserError for the files that were kept, so that nothing was written."""
    if prepared.conflicts:
        raise UserError([_problem(change) for change in prepared.conflicts])


def _problem(change: Change) -> Problem:
    other = f"move {change.path} away"
    if change.path == DOTENV:
        other = "--no-dotenv leaves it alone" if FILES_VARIABLE in assignments(change.after) else "--dotenv keeps it"
    hint = f"--force writes what the diff shows; or {other}"
    return Problem(where=change.path, what=f"{change.why}; nothing was written", hint=hint)


def _unseen(project: Path) -> Iterator[str]:
    unseen = unseen_in(project, os.environ)
    if unseen:
        yield f"{', '.join(unseen)}: existed before init; `agent-sandbox up` shows it and asks whether you trust it"
