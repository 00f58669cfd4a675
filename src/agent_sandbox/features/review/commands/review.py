"""`agent-sandbox review [PATH...]`."""

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.terminal.output import diff_lines, emit_json, emit_lines, say
from agent_sandbox.cli.terminal.question import answer_to
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.features.protect.mount_checks import listed
from agent_sandbox.features.protect.offered_settings import Offer, find_offer, forget_offer, save_offer
from agent_sandbox.features.review import changes as reviewing
from agent_sandbox.features.review.changes import Baseline, Change, Found, find_changes, load_baseline, save_baseline
from agent_sandbox.features.review.scan import SANDBOX
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import find_project

Paths = Annotated[
    list[str] | None,
    Argument(help="Only these files and directories, relative to the project.", metavar="PATH"),
]
Accept = Annotated[bool, Option(help="Accept the changes without asking.")]
Restore = Annotated[bool, Option(help="Bring the named files back to their reviewed state.")]
MOST_LINES = 200
# What `status` watches.
REPOSITORY = ".git"
NOT_YET = "nothing was reviewed yet: the first `agent-sandbox up` records the files as they are before the agent starts"
QUESTION = "Accept this change? [y]es, [n]ot now, [r]estore, [a]ll of this kind, [q]uit:"
# The argument that names git's settings.
SETTINGS = ".git/config"
TO_SAVE = f"git settings to save: agent-sandbox review at a terminal, or --accept {SETTINGS}, or --restore {SETTINGS}"
WHY = "settings that the agent wanted to save in your repository"
REFUSED = "refused settings could run a program or connect elsewhere: to save one anyway, run `git config` yourself"
SAVE = "Save the new settings? [y]es, [n]ot now, [d]rop:"
ONLY_REFUSED = "Drop these settings? [d]rop, [n]ot now:"
INCOMPLETE = "the project has too many files: not all were searched"


def review(
    paths: Paths = None,
    *,
    path: ProjectPath = None,
    accept: Accept = False,
    restore: Restore = False,
    json: Json = False,
) -> int:
    """Show what changed since the last review that a person or CI would run, and accept or restore it.

    It shows build files, CI, package scripts, lock files, executables, containers, tests, linters' settings, and links
    that lead out; and git settings that the agent wanted to save. At a terminal, it asks about each change. Exits
    with 1 if anything is left to review.
    """
    _require_valid(paths, accept=accept, restore=restore)
    root = find_project(path, cwd=Path.cwd()).root
    baseline = load_baseline(root, os.environ)
    if baseline is None:
        say(NOT_YET)
        return DONE
    found = find_changes(root, baseline)
    names = [one for one in paths or () if one != SETTINGS]
    changes = _selected(found.changes, names) if names or not paths else ()
    is_named = bool(paths) and names != paths
    offer = find_offer(root) if is_named or not paths else None
    if accept or restore:
        if names or not paths:
            _act(root, baseline, changes, accept=accept)
        if offer and is_named:
            _save_or_drop(root, offer, accept=accept)
        elif offer and offer.offered:
            say(TO_SAVE)
        if not found.complete:
            say((INCOMPLETE, "warn"))
        return DONE if found.complete else FIXABLE
    if json:
        shown = {"changes": list(map(reviewing.as_json, changes)), "git": _settings(offer)}
        emit_json({**shown, "skipped": found.skipped, "complete": found.complete})
    elif (changes or offer) and sys.stdin.isatty() and sys.stdout.isatty():
        return _ask(root, baseline, changes, found, offer)
    else:
        emit_lines(_as_text(changes, found, offer))
    return FIXABLE if changes or (offer and offer.offered) or not found.complete else DONE


def _require_valid(paths: list[str] | None, *, accept: bool, restore: bool) -> None:
    if accept and restore:
        raise UserError([Problem(where="--restore", what="cannot be combined with --accept")])
    if restore and not paths:
        raise UserError([Problem(where="--restore", what="needs the files to restore", hint="--restore PATH...")])


def _act(root: Path, baseline: Baseline, changes: Sequence[Change], *, accept: bool) -> None:
    if accept:
        _save(root, reviewing.accept(baseline, changes))
        say(f"{counted(len(changes), 'change')} accepted")
        return
    for change in changes:
        _restore(root, change)


def _restore(root: Path, change: Change) -> None:
    reviewing.restore(root, change)
    say(f"{'restored' if change.before else 'removed'} {printable(change.path)}")


def _selected(changes: Sequence[Change], paths: Sequence[str]) -> tuple[Change, ...]:
    """Return the changes of these files and directories; raise UserError for a path without a change."""
    wanted = [os.path.normpath(path) for path in paths]
    if not wanted:
        return tuple(changes)
    chosen = {path: [one for one in changes if _is_in(one.path, path)] for path in wanted}
    for path, found in chosen.items():
        if not found:
            raise UserError(
                [Problem(where=path, what="has no change to review", hint="agent-sandbox review lists them")]
            )
    return tuple(dict.fromkeys(one for path in wanted for one in chosen[path]))


def _is_in(path: str, folder: str) -> bool:
    return folder in (".", path) or path.startswith(f"{folder}/")


def _as_text(changes: Sequence[Change], found: Found, offer: Offer | None) -> Iterator[str]:
    for kind, group in groupby(sorted(changes, key=lambda one: one.kind.name), key=lambda one: one.kind):
        yield styled((kind.name, "title"), f"  {kind.why}")
        for change in group:
            yield from _one(change)
    yield from _offered(offer) if offer else ()
    yield from _rest(changes, found, offer)


def _one(change: Change) -> Iterator[str]:
    yield styled(f"  {change.how:<8} ", (change.path, "title"))
    yield from (styled("           ", (note, "warn")) for note in change.notes)
    lines = reviewing.difference(change)
    lines = lines[2:] if len(lines) > 1 else lines  # without the names of the file
    more = len(lines) - MOST_LINES
    yield from diff_lines("\n".join(lines[:MOST_LINES]))
    if more > 0:
        yield f"... and {more} more lines: see the file"


def _unseen(found: Found) -> Iterator[str]:
    if not found.complete:
        yield styled((INCOMPLETE, "warn"))
    if skipped := [path for path in found.skipped if path != SANDBOX and Path(path).name != REPOSITORY]:
        yield f"not searched: {listed(skipped)}"


def _rest(changes: Sequence[Change], found: Found, offer: Offer | None) -> Iterator[str]:
    yield from _unseen(found)
    if changes:
        count = counted(len(changes), "change")
        yield f"{count} to review: agent-sandbox review at a terminal, or --accept, or --restore PATH"
    if offer and offer.offered:
        yield TO_SAVE
    if not (changes or offer):
        yield "nothing to review"


def _ask(root: Path, baseline: Baseline, changes: Sequence[Change], found: Found, offer: Offer | None) -> int:
    """Show each change and do what the user says; return 1 if some were left."""
    left, wholly = 0, ""
    for change in sorted(changes, key=lambda one: one.kind.name):
        answer = "y" if change.kind.name == wholly else _answer(change)
        if answer == "q":
            left += 1
            break
        if answer == "a":
            wholly = change.kind.name
        if answer in {"y", "a"}:
            baseline = reviewing.accept(baseline, (change,))
            _save(root, baseline)
        elif answer == "r":
            _restore(root, change)
        else:
            left += 1
    else:
        left += bool(offer and _ask_about(root, offer))
    emit_lines(_unseen(found))
    return FIXABLE if left or not found.complete else DONE


def _answer(change: Change) -> str:
    emit_lines((styled((change.kind.name, "title"), f"  {change.kind.why}"), *_one(change)))
    answer = answer_to(QUESTION)
    return "q" if answer is None else answer[:1]


def _save(root: Path, baseline: Baseline) -> None:
    save_baseline(root, os.environ, baseline)


def _offered(offer: Offer) -> Iterator[str]:
    """Yield the git settings that the agent wanted to save, as text."""
    yield styled(("git", "title"), f"  {WHY}")
    for key, value in offer.offered:
        yield styled("  new      ", (key, "title"), f" = {value}")
    for key, value in offer.refused:
        yield styled("  refused  ", (key, "title"), f" = {value}" if value else "")
    if offer.refused:
        yield styled("  ", (REFUSED, "warn"))


def _settings(offer: Offer | None) -> dict[str, list[list[str]]]:
    both = {"offered": offer.offered, "refused": offer.refused} if offer else {"offered": (), "refused": ()}
    return {name: [list(one) for one in settings] for name, settings in both.items()}


def _save_or_drop(root: Path, offer: Offer, *, accept: bool) -> None:
    """Save what is offered, or drop all of it; raise UserError if the repository's settings changed meanwhile."""
    if not accept:
        forget_offer(offer)
        say(f"removed {offer.kept[0] / offer.kept[1]}")
    elif offer.offered:
        save_offer(root, os.environ, offer)
        say(f"saved in {offer.path}: {', '.join(key for key, _ in offer.offered)}")


def _ask_about(root: Path, offer: Offer) -> bool:
    """Ask whether to save what is offered; return whether something is left to decide."""
    emit_lines(_offered(offer))
    answer = (answer_to(SAVE if offer.offered else ONLY_REFUSED) or "")[:1]
    if answer == "d" or (answer == "y" and offer.offered):
        _save_or_drop(root, offer, accept=answer == "y")
        return False
    return bool(offer.offered)
