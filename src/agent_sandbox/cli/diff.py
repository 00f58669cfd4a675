"""`agent-sandbox diff [NAME]`."""

from collections.abc import Iterator
from typing import Annotated

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.framework.parameters import Argument, Option
from agent_sandbox.cli.steps.clones import chosen_clones, open_clone, uncommitted
from agent_sandbox.cli.terminal.excerpt import diff_lines
from agent_sandbox.cli.terminal.output import emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.clones.difference import PATCH, STAT, difference
from agent_sandbox.runtime.clones.fetch import checked_branches, one_at_a_time, read_status
from agent_sandbox.runtime.project.clone_record import Clone

Name = Annotated[str, Argument(help="The clone; may be left out if the project has only one.", metavar="NAME")]
Stat = Annotated[bool, Option(help="Show only which files change, and by how many lines.")]


def diff(name: Name = "", *, path: ProjectPath = None, stat: Stat = False) -> None:
    """Show what the branches of a clone change since it was made, without fetching them.

    Git's defaults alone decide how: no attributes, no external diff, no textconv. Characters that would control the
    terminal are escaped. Only commits are shown; other changed files are listed.
    """
    clones = chosen_clones(name, path)
    if len(clones) > 1:
        hint = f"name one of {', '.join(one.name for one in clones)}"
        raise UserError([Problem(where="NAME", what="this project has several clones", hint=hint)])
    emit_lines(_as_text(clones[0], STAT if stat else PATCH))


def _as_text(clone: Clone, shape: tuple[str, ...]) -> Iterator[str]:
    with one_at_a_time(clone):
        found = open_clone(clone)
        status = read_status(found.volume, clone, found.repository)
        with checked_branches(found.volume, clone, found.repository, status) as (checked, branches):
            for branch in branches:
                what = "a stash" if branch.stash else counted(branch.commits, "commit")
                yield styled((branch.name, "title"), f"  {what}")
                yield from diff_lines(difference(checked, clone, branch, shape))
    if not branches:
        yield f"{clone.name} has no new commit"
    listing = status.listing
    yield from (f"refused: {name}: {why}" for name, why in listing.refused.items())
    yield from uncommitted(listing.changed, listing.ignored, complete=listing.complete)
