"""Write a project's stack, for `init` and `run`."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.agents.together import sentence
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.question import agrees, answer_to
from agent_sandbox.features.policy.resolve_services import resolve_named
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.stack.init.initialise import InitOptions, Prepared, prepare
from agent_sandbox.features.trust.auto_trust import remember
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.host.files import project_lock
from agent_sandbox.host.settings import user_settings, write_settings
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import removal_of
from agent_sandbox.project.record import known
from agent_sandbox.project.render.dotenv import assignments
from agent_sandbox.project.render.paths import DOTENV, POLICY
from agent_sandbox.project.render.reconcile import Change
from agent_sandbox.project.trust_snapshot import Standing, look
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.projectfile.languages import packages_for
from agent_sandbox.stack.engine import FILES_VARIABLE

KEPT = "Protected so far, but this search found no reference to:"
LOST = "Protected so far, but now a link or a pipe, which cannot be protected:"


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


def orphaned_stack(prepared: Prepared, trusted: Iterable[Standing]) -> Iterator[str]:
    """Yield a note for a stack with the project's former name or from its former directory."""
    record = known({change.path: change.before for change in prepared.changes})
    former, name = record.name if record else prepared.stack.name, prepared.stack.name
    if former == name:
        return
    kept = f"if it ever ran, its containers and volumes (with sign-in and history) remain until: {removal_of(former)}"
    if _place(former) == _place(name):
        yield f"the stack was named {former}: {kept}"
    for place in trusted:
        # A copied project still has its original, and a clone never had another stack here.
        if _name(place) == former and not place.root.exists():
            yield f"the project was in {place.root}, and its stack was {former}: {kept}"


def _place(name: str) -> str:
    return name.rpartition("-")[2]


def _name(place: Standing) -> str | None:
    record = known(place.files)
    return record.name if record else None


def settle(options: InitOptions, prepared: Prepared) -> Prepared:
    """Ask which protections may end, and return what `init` then does; without a terminal, none ends.

    After an incomplete search, paths that it did not find are kept without asking: they may still matter.
    """
    asked = {LOST: prepared.protection.lost, KEPT: () if prepared.protection.unsearched else prepared.protection.kept}
    if not sys.stdin.isatty():
        return prepared
    unprotect = frozenset(path for title, paths in asked.items() if paths and _yes(title, paths) for path in paths)
    return prepare(replace(options, unprotect=unprotect), os.environ) if unprotect else prepared


def _yes(title: str, paths: Sequence[str]) -> bool:
    say(title)
    for path in paths:
        say(f"  {printable(path)}")
    return agrees("Let the agent write this from now on?")
