"""`agent-sandbox diff [NAME]`."""

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import diff_lines, emit_lines
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.features.clones.checked import CheckedObjects
from agent_sandbox.features.clones.clones import chosen_clones, open_clone, uncommitted
from agent_sandbox.features.clones.fetch import Branch, checked_branches, one_at_a_time, read_status
from agent_sandbox.features.clones.host_repository import HEADS, last_line
from agent_sandbox.host.process import TOO_MUCH
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import Clone

Name = Annotated[str, Argument(help="The clone; may be left out if the project has only one.")]
Stat = Annotated[bool, Option(help="Show only which files change, and by how many lines.")]
MOST_BYTES = 8 << 20
CUT = "... the rest is not shown; to see all of it: agent-sandbox fetch, then git diff"
PATCH, STAT = ("--patch",), ("--stat=80",)
PLAIN = (
    *("-r", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--submodule=short"),
    *("--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/"),
)


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


def difference(checked: CheckedObjects, clone: Clone, branch: Branch, shape: Iterable[str] = PATCH) -> str:
    """Return what a branch changes since the clone was made, as text with unprintable characters in it."""
    parents = _parents(checked, clone, branch.commit) if branch.stash else ()
    if len(parents) < 2:  # it is not what git makes as a stash
        return _compared(checked, clone, _base(checked, clone, branch), branch.commit, shape)
    # `git stash apply` brings what differs from the first parent, and all files of the third: those not tracked.
    tracked = _compared(checked, clone, parents[0], branch.commit, shape)
    return tracked + "".join(_compared(checked, clone, _empty_tree(checked), one, shape) for one in parents[2:])


def _compared(checked: CheckedObjects, clone: Clone, base: str, commit: str, shape: Iterable[str]) -> str:
    with TemporaryFile(prefix="agent-sandbox-") as file:
        words = ("-c", "core.quotePath=true", "diff-tree", *PLAIN, *shape, base, commit)
        done = checked.run(*words, into=file, most=MOST_BYTES)
        if done.code not in (0, TOO_MUCH):
            raise UserError([_failed(clone, "diff-tree", done.err)])
        file.seek(0)
        text = file.read(MOST_BYTES).decode("utf-8", "surrogateescape")
    return f"{text.rpartition('\n')[0]}\n{CUT}\n" if done.code else text


def _parents(checked: CheckedObjects, clone: Clone, commit: str) -> tuple[str, ...]:
    """Return the first three parents of a commit; git ignores more in a stash."""
    done = checked.run("rev-list", "--max-count=1", "--parents", commit, "--")
    if done.code:
        raise UserError([_failed(clone, "rev-list", done.err)])
    return tuple(done.out.split()[1:4])


def _base(checked: CheckedObjects, clone: Clone, branch: Branch) -> str:
    """Return the commit to compare with: where the branch left what the clone started with, or an empty tree."""
    own = clone.started.get(f"{HEADS}{branch.name}")
    started = sorted(checked.has([own] if own else [*clone.started.values()]))
    found = checked.run("merge-base", branch.commit, *started).out.strip() if started else ""
    return found or _empty_tree(checked)


def _empty_tree(checked: CheckedObjects) -> str:
    return checked.run("hash-object", "-t", "tree", "--stdin").out.strip()


def _failed(clone: Clone, command: str, said: str) -> Problem:
    return Problem(where=clone.name, what=f"git {command} failed: {last_line(said)}")
