"""`agent-sandbox fetch [NAME]`."""

from collections.abc import Iterator
from typing import Annotated, Any

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.steps.clones import chosen_clones, open_clone, uncommitted
from agent_sandbox.cli.steps.execute import is_running
from agent_sandbox.cli.terminal.output import counted, emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.clones.fetch import (
    MOST_BYTES,
    Branch,
    CloneStatus,
    checked_branches,
    one_at_a_time,
    read_status,
    write_branches,
)
from agent_sandbox.runtime.project.clone_record import Clone
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.stack.limits import LIMITS

Name = Annotated[str, Argument(help="The clone; by default all clones of the project.", metavar="NAME")]
type Result = tuple[Clone, CloneStatus, tuple[Branch, ...]]

Most = Annotated[str, Option(help="Fetch at most this much from each clone; by default 2g.", metavar="SIZE")]


def fetch(name: Name = "", *, path: ProjectPath = None, most: Most = "", json: Json = False) -> int:
    """Bring the commits of a clone into the project's repository, as `box/NAME/BRANCH`.

    Its stashes come as `box/NAME/stash-COMMIT`. The objects are checked, and the clone's settings, hooks and attributes
    have no effect here. Uncommitted files stay in the clone and are listed. Works whether the clone's stack runs or
    not. Exits with 1 if a branch was refused, or a clone could not be read; all others are fetched.
    """
    size = LIMITS["disk"].read(most) if most else MOST_BYTES
    if size is None:
        raise UserError([Problem(where="--most", what=f"`{most}` is not a {LIMITS['disk'].form}")])
    results: list[Result] = []
    problems: list[Problem] = []
    for clone in chosen_clones(name, path):
        try:
            results.append((clone, *_fetch(clone, size)))
        except UserError as error:  # the other clones are still fetched
            problems += error.problems
            continue
        if not json:
            emit_lines(_as_text(*results[-1]))
    if json:
        emit_json({"clones": [_as_json(*one) for one in results]})
    if problems:
        raise UserError(problems)
    return FIXABLE if any(status.listing.refused for _, status, _ in results) else DONE


def _fetch(clone: Clone, most: int) -> tuple[CloneStatus, tuple[Branch, ...]]:
    with one_at_a_time(clone):
        found = open_clone(clone)
        status = read_status(found.volume, clone, found.repository)
        if all(one.is_fetched for one in status.branches):
            return status, ()
        with checked_branches(found.volume, clone, found.repository, status, most=most) as (checked, branches):
            fetched = tuple(one for one in branches if not one.is_fetched)
            if found.repository.reftable:
                _require_no_agent(clone)
            write_branches(found.repository, checked, fetched, clone)
    return status, fetched


def _require_no_agent(clone: Clone) -> None:
    """Raise UserError while an agent works in the project: git itself writes reftables, and would follow its links."""
    if is_running(open_project(clone.project, cwd=clone.project), "agent"):
        what = "its references are in the reftable format, and an agent that runs here could lead git elsewhere"
        raise UserError([Problem(where=str(clone.project), what=what, hint="agent-sandbox down, then fetch again")])


def _as_json(clone: Clone, status: CloneStatus, fetched: tuple[Branch, ...]) -> dict[str, Any]:
    return {
        "name": clone.name,
        "branches": [
            {
                "branch": one.name,
                "ref": one.reference,
                "commit": one.commit,
                "before": one.before or None,
                "commits": one.commits,
                "new": one.new,
                "rewritten": one.rewritten,
                "stash": one.stash,
            }
            for one in fetched
        ],
        "refused": [{"branch": name, "reason": why} for name, why in status.listing.refused.items()],
        "uncommitted": list(status.listing.changed),
        "ignored": list(status.listing.ignored),
        "complete": status.listing.complete,
    }


def _as_text(clone: Clone, status: CloneStatus, fetched: tuple[Branch, ...]) -> Iterator[str]:
    if not fetched:
        yield styled((clone.name, "title"), ": nothing new to fetch")
    for one in fetched:
        place = f"box/{clone.name}/{one.name}"
        again = "; rewritten: the reflog has the former ones" if one.rewritten else ""
        what = f"a stash: git stash apply {place}" if one.stash else f"{counted(one.new, 'new commit')}{again}"
        yield styled((place, "title"), f"  {what}")
    for name, why in status.listing.refused.items():
        yield styled(("  refused:", "warn"), f" {name}: {why}")
    listing = status.listing
    yield from (f"  {line}" for line in uncommitted(listing.changed, listing.ignored, complete=listing.complete))
