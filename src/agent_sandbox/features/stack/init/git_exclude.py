"""Keep what belongs to one clone out of git, and no longer what all clones share.

`.devcontainer/.gitignore` lists the files beside it. `.env`, in the project's own directory, is listed in
`.git/info/exclude`, which only this clone has, or on request in `.gitignore`.
"""

from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

from agent_sandbox.host.files import read_text
from agent_sandbox.host.git.worktree import Outside
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.dotenv import remove_variables
from agent_sandbox.project.render.ignore import ignored, ignoring, names, no_longer_ignoring
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, IGNORE, IGNORED
from agent_sandbox.project.render.reconcile import Change, Verdict
from agent_sandbox.stack.engine import FILES_VARIABLE, NAME_VARIABLE

EXCLUDE = ".git/info/exclude"  # git reads it in this clone alone
GITIGNORE = ".gitignore"
# Earlier versions kept these out of git; now they are the same in every clone.
NO_LONGER = (DEVCONTAINER,)


def exclude_file(project: Path, outside: Outside | None) -> str | None:
    """Return git's exclude file of a project, which all worktrees of a repository share, or None without git."""
    if outside is not None:
        return str(outside.common / "info" / "exclude")
    return EXCLUDE if (project / ".git").is_dir() and not (project / ".git").is_symlink() else None


def to_exclude(project: Path, changes: Iterable[Change], file: str) -> tuple[str, ...]:
    """Return the new files of this clone that git does not ignore yet."""
    by_path = {one.path: one for one in changes}
    new = [DOTENV] if DOTENV in by_path and by_path[DOTENV].verdict is Verdict.WRITTEN else []
    return not_ignored(project, new, file, shared=by_path.get(GITIGNORE))


def not_ignored(project: Path, new: Iterable[str], file: str, *, shared: Change | None = None) -> tuple[str, ...]:
    """Return those of these new files that git does not ignore yet; `shared` is a planned change of `.gitignore`."""
    lines = _lines(project, file)
    if lines is None:
        return ()
    lines |= ignored(shared.after) if shared else _lines(project, GITIGNORE) or set()
    beside = _lines(project, IGNORE) or set()
    return tuple(path for path in new if not names(path, lines) and not _is_beside(path, beside))


def excluding(project: Path, paths: Collection[str], file: str) -> dict[str, str]:
    """Return the exclude file with these paths, and without what is shared now, if that changes it.

    Raise UserError if it cannot be read.
    """
    if not paths and _lines(project, file) is None:
        return {}
    before = read_text(project, file) or ""
    after = ignoring(no_longer_ignoring(before, NO_LONGER), paths)
    return {file: after} if after != before else {}


def ignoring_here(project: Path, changes: Iterable[Change]) -> Change:
    """Return the change of `.gitignore` that lists `.env`, unless it is partly the user's."""
    before = read_text(project, GITIGNORE)
    after = ignoring(before or "", [one.path for one in changes if one.path == DOTENV and _is_ours(one)])
    if after == (before or ""):
        return Change(path=GITIGNORE, verdict=Verdict.UNCHANGED, before=before, after=after)
    verdict = Verdict.WRITTEN if before is None else Verdict.MERGED
    return Change(path=GITIGNORE, verdict=verdict, before=before, after=after)


def _is_ours(dotenv: Change) -> bool:
    return not remove_variables(dotenv.after, (FILES_VARIABLE, NAME_VARIABLE)).strip()


def _is_beside(path: str, lines: Collection[str]) -> bool:
    """Return whether `.devcontainer/.gitignore` has our line for a path."""
    place = PurePosixPath(path)
    folder = PurePosixPath(IGNORE).parent
    listed = [name for name in IGNORED if names(name, lines)]
    return any(place.is_relative_to(folder / name) for name in listed)


def _lines(project: Path, path: str) -> set[str] | None:
    try:
        return ignored(read_text(project, path) or "")
    except UserError:
        return None  # a link, or not text: not ours to change
