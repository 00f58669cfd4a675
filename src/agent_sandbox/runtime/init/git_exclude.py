"""Keep the files that belong to one machine out of git: `.git/info/exclude`, which git reads in this clone alone."""

from collections.abc import Collection, Iterable
from pathlib import Path

from agent_sandbox.problems import UserError
from agent_sandbox.render.paths import DEVCONTAINER, DOTENV, STACK
from agent_sandbox.render.reconcile import Change, Verdict
from agent_sandbox.runtime.host.files import read_text

EXCLUDE = ".git/info/exclude"
# They name directories of this machine. The policy is for everyone.
OF_THIS_MACHINE = frozenset({STACK, DEVCONTAINER, DOTENV})
COMMENT = "# Files of agent-sandbox that belong to this directory on this machine:"


def to_exclude(project: Path, changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the new files of this machine that git does not ignore yet."""
    new = [one.path for one in changes if one.verdict is Verdict.WRITTEN and one.path in OF_THIS_MACHINE]
    return not_ignored(project, new)


def not_ignored(project: Path, new: Iterable[str]) -> tuple[str, ...]:
    """Return those of these new files that git does not ignore yet; nothing without a git directory of its own."""
    if not (project / ".git").is_dir() or (project / ".git").is_symlink():
        return ()
    ignored = _lines(project, EXCLUDE)
    if ignored is None:
        return ()
    ignored |= _lines(project, ".gitignore") or set()
    return tuple(path for path in new if not {path, f"/{path}"} & ignored)


def excluding(project: Path, paths: Collection[str]) -> str:
    """Return the exclude file with these paths added. Raise UserError if it cannot be read."""
    text = read_text(project, EXCLUDE) or ""
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{COMMENT}\n" + "".join(f"/{path}\n" for path in paths)


def _lines(project: Path, path: str) -> set[str] | None:
    try:
        return {line.strip() for line in (read_text(project, path) or "").splitlines()}
    except UserError:
        return None  # a link, or not text: not ours to change
