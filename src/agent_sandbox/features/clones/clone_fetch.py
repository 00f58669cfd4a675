"""Fetch the commits of one clone, and describe what came."""

from collections.abc import Iterator

from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.features.clones.clones import open_clone, uncommitted
from agent_sandbox.features.clones.fetch import (
    MOST_BYTES,
    checked_branches,
    one_at_a_time,
    read_status,
    write_branches,
)
from agent_sandbox.features.clones.fetched import Fetched
from agent_sandbox.features.stack.execute import is_running
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import Clone
from agent_sandbox.project.installed import open_project


def fetch_clone(clone: Clone, *, most: int = MOST_BYTES) -> Fetched:
    """Bring at most this many bytes of new commits into the project's repository; raise UserError if that fails."""
    with one_at_a_time(clone):
        found = open_clone(clone)
        status = read_status(found.volume, clone, found.repository)
        if all(one.is_fetched for one in status.branches):
            return Fetched(clone=clone, status=status, branches=())
        with checked_branches(found.volume, clone, found.repository, status, most=most) as (checked, branches):
            new = tuple(one for one in branches if not one.is_fetched)
            if found.repository.reftable:
                _require_no_agent(clone)
            write_branches(found.repository, checked, new, clone)
    return Fetched(clone=clone, status=status, branches=new)


def _require_no_agent(clone: Clone) -> None:
    """Raise UserError while an agent works in the project: git itself writes reftables, and would follow its links."""
    if is_running(open_project(clone.project, cwd=clone.project), "agent"):
        what = "its references are in the reftable format, and an agent that runs here could lead git elsewhere"
        raise UserError([Problem(where=str(clone.project), what=what, hint="agent-sandbox down, then fetch again")])


def fetched_lines(fetched: Fetched) -> Iterator[str]:
    """Yield what was fetched, and what was not, for a person."""
    name, listing = fetched.clone.name, fetched.status.listing
    if not fetched.branches:
        yield styled((name, "title"), ": nothing new to fetch")
    for one in fetched.branches:
        place = f"box/{name}/{one.name}"
        again = "; rewritten: the reflog has the former ones" if one.rewritten else ""
        what = f"a stash: git stash apply {place}" if one.stash else f"{counted(one.new, 'new commit')}{again}"
        yield styled((place, "title"), f"  {what}")
    for branch, why in listing.refused.items():
        yield styled(("  refused:", "warn"), f" {branch}: {why}")
    yield from (f"  {line}" for line in uncommitted(listing.changed, listing.ignored, complete=listing.complete))
