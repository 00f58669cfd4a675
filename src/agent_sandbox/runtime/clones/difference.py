"""Show what a branch of a clone changes. Nothing but git's defaults decides how: no attributes, no programs."""

from collections.abc import Iterable
from tempfile import TemporaryFile

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.clones.checked import CheckedObjects
from agent_sandbox.runtime.clones.fetch import Branch
from agent_sandbox.runtime.clones.host_repository import HEADS, last_line
from agent_sandbox.runtime.host.process import TOO_MUCH
from agent_sandbox.runtime.project.clone_record import Clone

MOST_BYTES = 8 << 20
CUT = "... the rest is not shown; to see all of it: agent-sandbox fetch, then git diff"
PATCH, STAT = ("--patch",), ("--stat=80",)
PLAIN = (
    *("-r", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--submodule=short"),
    *("--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/"),
)


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
