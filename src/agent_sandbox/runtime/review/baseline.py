"""The reviewed state of a project's files, in the user's state directory, out of the agent's reach.

A manifest has the digest of each file; the content of text files is kept beside it, to show and restore it.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.host.files import problem_of, write_all
from agent_sandbox.runtime.host.user_dirs import state_directory, state_name
from agent_sandbox.runtime.review.scan import Seen

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
    folder = _folder(root, environ)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError([problem_of(str(folder), error)]) from error
    write_all(folder, {MANIFEST: json.dumps({"root": str(root), "files": dict(_bounded(baseline))})})


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
