"""Compare a project's files with their reviewed state, and accept or restore them."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from difflib import unified_diff
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.bounded_json import read_json
from agent_sandbox.counted import counted
from agent_sandbox.features.review.kinds import EXECUTABLE, Kind, kind_of
from agent_sandbox.features.review.scan import MOST_BYTES, Scan, Seen
from agent_sandbox.host.files import open_folder, problem_of, write_all, write_private
from agent_sandbox.host.user_dirs import state_directory, state_name
from agent_sandbox.problems import Problem, UserError

HOST = re.compile(rb"(?:https?|git\+\w+|ssh|git)://(?:[^\s/@\"']*@)?([\w.:\[\]-]+)")
CHANGED = "it changed after it was shown: run agent-sandbox review again"
NOT_KEPT = "its reviewed content was not kept: it is large or not text; restore it with git"
NOT_PLAIN = "it was a link or not a regular file when it was reviewed: restore it with git"
GONE_FOLDER = "its directory is gone: restore it with git"
# In the user's state directory, out of the agent's reach. A manifest has the digest of each file; the content of text
# files is kept beside it, to show and restore it.
FOLDER = "review"
MANIFEST = "reviewed.json"
# Larger files, and those that come after so much, are compared by their digests only.
MOST_TEXT = 256 << 10
MOST_KEPT = 16 << 20


class Reviewed(Struct, frozen=True, kw_only=True):
    """A file as it was when it was reviewed. `text` is None if it was not kept: too large, or not UTF-8.

    `plain` is false for a link, a pipe and a device.
    """

    digest: str
    executable: bool
    text: str | None
    plain: bool = True


class Baseline(Struct, frozen=True, kw_only=True):
    """The reviewed files by path."""

    files: Mapping[str, Reviewed] = {}

    def with_reviewed(self, seen: Iterable[Seen], gone: Iterable[str] = ()) -> "Baseline":
        """Return a copy with these files as they are now, and without those that are gone."""
        left = set(gone)
        files = {path: one for path, one in self.files.items() if path not in left}
        return replace(self, files={**files, **{one.path: _reviewed(one) for one in seen}})


def _reviewed(seen: Seen) -> Reviewed:
    return Reviewed(digest=seen.digest, executable=seen.executable, text=text_of(seen.data), plain=seen.plain)


def text_of(data: bytes) -> str | None:
    """Return the content of a text file, or None if it is too large or not UTF-8."""
    if len(data) > MOST_TEXT or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def load_baseline(root: Path, environ: Mapping[str, str]) -> Baseline | None:
    """Return what was reviewed in this directory, or None if nothing was, or the record is damaged."""
    try:
        said = read_json((_folder(root, environ) / MANIFEST).read_text("utf-8"))
        return Baseline(files={path: Reviewed(**one) for path, one in said["files"].items()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def save_baseline(root: Path, environ: Mapping[str, str], baseline: Baseline) -> None:
    """Replace what was reviewed; raise UserError if it cannot be written."""
    said = json.dumps({"root": str(root), "files": dict(_bounded(baseline))})
    write_private(_folder(root, environ), {MANIFEST: said})


def _bounded(baseline: Baseline) -> Iterable[tuple[str, Mapping[str, object]]]:
    left = MOST_KEPT
    for path, one in baseline.files.items():
        left -= len(one.text or "")
        yield (
            path,
            {
                "digest": one.digest,
                "executable": one.executable,
                "text": one.text if left > 0 else None,
                "plain": one.plain,
            },
        )


def _folder(root: Path, environ: Mapping[str, str]) -> Path:
    return state_directory(environ) / FOLDER / state_name(root.resolve())


class How(StrEnum):
    """The kind of a change to a file."""

    NEW = "new"
    CHANGED = "changed"
    REMOVED = "removed"


class Change(Struct, frozen=True, kw_only=True):
    """One file that differs from what was reviewed. `seen` is None if it is gone, `before` is None if it is new.

    `notes` say what matters in it, such as a new host in a lock file.
    """

    path: str
    kind: Kind
    how: How
    seen: Seen | None
    before: Reviewed | None
    notes: tuple[str, ...] = ()


class Found(Struct, frozen=True, kw_only=True):
    """All changes, and what was not searched."""

    changes: tuple[Change, ...]
    skipped: tuple[str, ...]
    complete: bool


def take(root: Path) -> Baseline:
    """Return the current state as reviewed."""
    return Baseline().with_reviewed(Scan(root=root, skipped=[]).files())


def find_changes(root: Path, baseline: Baseline) -> Found:
    """Return what differs from the reviewed state, by path."""
    scan = Scan(root=root, skipped=[])
    now = {seen.path: seen for seen in scan.files()}
    changes = [
        _change(seen, before)
        for path, seen in now.items()
        if (before := baseline.files.get(path)) is None or before.digest != seen.digest
    ]
    changes += [
        Change(path=path, kind=kind_of(path) or EXECUTABLE, how=How.REMOVED, seen=None, before=before)
        for path, before in baseline.files.items()
        if path not in now and scan.complete
    ]
    return Found(
        changes=tuple(sorted(changes, key=lambda one: one.path)), skipped=tuple(scan.skipped), complete=scan.complete
    )


def _change(seen: Seen, before: Reviewed | None) -> Change:
    notes = tuple(_notes(seen, before))
    how = How.CHANGED if before else How.NEW
    return Change(path=seen.path, kind=seen.kind, how=how, seen=seen, before=before, notes=notes)


def _notes(seen: Seen, before: Reviewed | None) -> Iterator[str]:
    if seen.executable and before and not before.executable:
        yield "may be executed now"
    was = before.text.encode() if before and before.text is not None else None
    if before is None or was is not None:
        new = sorted(set(HOST.findall(seen.data)) - set(HOST.findall(was or b"")))
        if new:
            yield f"names {_listed([host.decode('utf-8', 'replace') for host in new])}"
    if Path(seen.path).name in {"package-lock.json", "npm-shrinkwrap.json"}:
        scripts = sorted(_with_scripts(seen.data) - _with_scripts(was or b""))
        if scripts:
            yield f"new packages that run a script when they are installed: {_listed(scripts)}"


def _with_scripts(data: bytes) -> set[str]:
    """Return the packages of an npm lock file that have an install script."""
    try:
        packages = read_json(data)["packages"]
        return {path.rpartition("node_modules/")[2] for path, one in packages.items() if one.get("hasInstallScript")}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def difference(change: Change) -> list[str]:
    """Return the lines of a unified diff; one line that says why, where there is no text to compare."""
    after = text_of(change.seen.data) if change.seen else ""
    before = change.before.text if change.before else ""
    if after is None or before is None:
        return [f"no difference to show: the content is large or not text ({_size(change)})"]
    first = "/dev/null" if change.before is None else f"a/{change.path}"
    second = "/dev/null" if change.seen is None else f"b/{change.path}"
    return list(unified_diff(_lines(before), _lines(after), first, second, n=2, lineterm=""))


def _lines(text: str) -> list[str]:
    """Return the lines; other separators than a line feed stay visible, because a program may not end a line there."""
    return text.removesuffix("\n").split("\n") if text else []


def _size(change: Change) -> str:
    return f"{counted(len(change.seen.data), 'byte')} or more" if change.seen else "removed"


def accept(baseline: Baseline, changes: Iterable[Change]) -> Baseline:
    """Return the reviewed state with these changes, exactly as they were found."""
    found = list(changes)
    seen = (one.seen for one in found if one.seen)
    return baseline.with_reviewed(seen, gone=(one.path for one in found if one.seen is None))


def restore(root: Path, change: Change) -> None:
    """Bring a file back to its reviewed state, or remove a new one; raise UserError if that is not possible.

    The file must still be as it was found. No link is followed.
    """
    where = str(root / change.path)
    now = Scan(root=root, skipped=[]).look(change.path)
    if (now and now.digest) != (change.seen and change.seen.digest):
        raise UserError([Problem(where=where, what=CHANGED)])
    if change.before is None:
        _remove(root, change.path)
        return
    if not change.before.plain:
        raise UserError([Problem(where=where, what=NOT_PLAIN)])
    if change.before.text is None:
        raise UserError([Problem(where=where, what=NOT_KEPT)])
    if not (root / change.path).parent.is_dir():
        raise UserError([Problem(where=where, what=GONE_FOLDER)])
    if change.seen and not (change.seen.plain and len(change.seen.data) < MOST_BYTES):
        _remove(root, change.path)  # to replace a file, it is read
    write_all(root, {change.path: change.before.text})
    _set_executable(root, change.path, executable=change.before.executable)


def _remove(root: Path, path: str) -> None:
    with ExitStack() as stack:
        try:
            os.unlink(Path(path).name, dir_fd=open_folder(stack, root, path))
        except OSError as error:
            raise UserError([problem_of(str(root / path), error)]) from error


def _set_executable(root: Path, path: str, *, executable: bool) -> None:
    with ExitStack() as stack:
        try:
            folder = open_folder(stack, root, path)
            handle = os.open(Path(path).name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            stack.callback(os.close, handle)
            mode = os.fstat(handle).st_mode & 0o777
            # Whoever may read it may execute it.
            os.fchmod(handle, mode | ((mode & 0o444) >> 2) if executable else mode & ~0o111)
        except OSError as error:
            raise UserError([problem_of(str(root / path), error)]) from error


def as_json(change: Change) -> Mapping[str, object]:
    """Return a change for `--json`."""
    return {
        "path": change.path,
        "kind": change.kind.name,
        "why": change.kind.why,
        "how": str(change.how),
        "notes": list(change.notes),
        "diff": difference(change),
    }
