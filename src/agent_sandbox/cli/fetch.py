"""`agent-sandbox fetch [NAME]`."""

from collections.abc import Iterator
from typing import Annotated, Any

from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import Json, ProjectPath
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.steps.clones import chosen_clones, open_clone, uncommitted
from agent_sandbox.cli.terminal.output import counted, emit_json, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.clones.fetch import MOST_BYTES, Branch, Offered, bring, look, one_at_a_time, received
from agent_sandbox.runtime.project.clone_record import Clone
from agent_sandbox.stack.limits import LIMITS

Name = Annotated[str, Argument(help="The clone; by default all clones of the project.", metavar="NAME")]
Most = Annotated[str, Option(help="Fetch at most this much from each clone; by default 2g.", metavar="SIZE")]


def fetch(name: Name = "", *, path: ProjectPath = None, most: Most = "", json: Json = False) -> int:
    """Bring the commits of a clone into the project's repository, as `box/NAME/BRANCH`.

    The objects are checked, and the clone's settings, hooks and attributes have no effect here. Uncommitted files stay
    in the clone and are listed. Works whether the clone's stack runs or not. Exits with 1 if a branch was refused.
    """
    size = LIMITS["disk"].read(most) if most else MOST_BYTES
    if size is None:
        raise UserError([Problem(where="--most", what=f"`{most}` is not a {LIMITS['disk'].form}")])
    results = [(clone, *_fetch(clone, size)) for clone in chosen_clones(name, path)]
    if json:
        emit_json({"clones": [_as_json(*one) for one in results]})
    else:
        emit_lines(line for one in results for line in _as_text(*one))
    return FIXABLE if any(offered.listing.refused for _, offered, _ in results) else DONE


def _fetch(clone: Clone, most: int) -> tuple[Offered, tuple[Branch, ...]]:
    with one_at_a_time(clone):
        found = open_clone(clone)
        offered = look(found.volume, clone, found.repository)
        if all(one.is_fetched for one in offered.branches):
            return offered, ()
        with received(found.volume, clone, found.repository, offered, most=most) as (checked, branches):
            fetched = tuple(one for one in branches if not one.is_fetched)
            bring(found.repository, checked, fetched, clone)
    return offered, fetched


def _as_json(clone: Clone, offered: Offered, fetched: tuple[Branch, ...]) -> dict[str, Any]:
    return {
        "name": clone.name,
        "branches": [
            {
                "branch": one.name,
                "ref": one.reference,
                "commit": one.commit,
                "before": one.before or None,
                "commits": one.commits,
                "rewritten": one.rewritten,
            }
            for one in fetched
        ],
        "refused": [{"branch": name, "reason": why} for name, why in offered.listing.refused.items()],
        "uncommitted": list(offered.listing.changed),
        "ignored": list(offered.listing.ignored),
        "complete": offered.listing.complete,
    }


def _as_text(clone: Clone, offered: Offered, fetched: tuple[Branch, ...]) -> Iterator[str]:
    if not fetched:
        yield styled((clone.name, "title"), ": nothing new to fetch")
    for one in fetched:
        again = "; it was rewritten, and the former commits are in the reflog" if one.rewritten else ""
        yield styled((f"box/{clone.name}/{one.name}", "title"), f"  {counted(one.commits, 'new commit')}{again}")
    for name, why in offered.listing.refused.items():
        yield styled(("  refused:", "warn"), f" {name}: {why}")
    listing = offered.listing
    yield from (f"  {line}" for line in uncommitted(listing.changed, listing.ignored, complete=listing.complete))
