"""Keep the files that belong to one machine out of git: by `.git/info/exclude`, or on request by `.gitignore`."""

from collections.abc import Collection, Iterable
from pathlib import Path

from agent_sandbox.problems import UserError
from agent_sandbox.render.dotenv import remove_variables
from agent_sandbox.render.formats.header import Hand, hand_of
from agent_sandbox.render.paths import DEVCONTAINER, DOTENV, STACK
from agent_sandbox.render.reconcile import Change, Verdict
from agent_sandbox.runtime.git.worktree import Outside
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.stack.engine import FILES_VARIABLE, NAME_VARIABLE

EXCLUDE = ".git/info/exclude"  # git reads it in this clone alone
GITIGNORE = ".gitignore"
# They name directories of this machine. The policy is for everyone.
OF_THIS_MACHINE = frozenset({STACK, DEVCONTAINER, DOTENV})
COMMENT = "# Files of agent-sandbox that belong to this directory on this machine:"


def exclude_file(project: Path, outside: Outside | None) -> str | None:
    """Return git's exclude file of a project, which all worktrees of a repository share, or None without git."""
    if outside is not None:
        return str(outside.common / "info" / "exclude")
    return EXCLUDE if (project / ".git").is_dir() and not (project / ".git").is_symlink() else None


def to_exclude(project: Path, changes: Iterable[Change], file: str) -> tuple[str, ...]:
    """Return the new files of this machine that git does not ignore yet."""
    by_path = {one.path: one for one in changes}
    new = [path for path, one in by_path.items() if one.verdict is Verdict.WRITTEN and path in OF_THIS_MACHINE]
    return not_ignored(project, new, file, shared=by_path.get(GITIGNORE))


def not_ignored(project: Path, new: Iterable[str], file: str, *, shared: Change | None = None) -> tuple[str, ...]:
    """Return those of these new files that git does not ignore yet; `shared` is a planned change of `.gitignore`."""
    ignored = _lines(project, file)
    if ignored is None:
        return ()
    ignored |= _split(shared.after) if shared else _lines(project, GITIGNORE) or set()
    return tuple(path for path in new if not _is_in(path, ignored))


def excluding(project: Path, paths: Collection[str], file: str) -> str:
    """Return the exclude file with these paths added. Raise UserError if it cannot be read."""
    return _with(read_text(project, file) or "", paths)


def ignoring(project: Path, changes: Iterable[Change]) -> Change:
    """Return the change of `.gitignore` that lists the files of this machine; not those that are partly the user's."""
    before = read_text(project, GITIGNORE)
    ignored = _split(before or "")
    missing = [one.path for one in changes if _is_ours(one) and not _is_in(one.path, ignored)]
    if not missing:
        return Change(path=GITIGNORE, verdict=Verdict.UNCHANGED, before=before, after=before or "")
    verdict = Verdict.WRITTEN if before is None else Verdict.MERGED
    return Change(path=GITIGNORE, verdict=verdict, before=before, after=_with(before or "", missing))


def _is_ours(change: Change) -> bool:
    if change.path == DOTENV:
        return not remove_variables(change.after, (FILES_VARIABLE, NAME_VARIABLE)).strip()
    return change.path in OF_THIS_MACHINE and hand_of(change.after) is Hand.OURS


def _with(text: str, paths: Iterable[str]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text or text.endswith("\n") else end
    return f"{text}{gap}{COMMENT}{end}" + "".join(f"/{path}{end}" for path in paths)


def _is_in(path: str, ignored: Collection[str]) -> bool:
    return path in ignored or f"/{path}" in ignored


def _lines(project: Path, path: str) -> set[str] | None:
    try:
        return _split(read_text(project, path) or "")
    except UserError:
        return None  # a link, or not text: not ours to change


def _split(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()}
