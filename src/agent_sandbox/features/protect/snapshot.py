"""Record the content of protected files at the last start, to show later what was written meanwhile."""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from agent_sandbox.bounded_json import read_json
from agent_sandbox.features.protect.mount_checks import has_two_names
from agent_sandbox.host.files import is_real, read_bytes, write_private
from agent_sandbox.host.git.git_config import settings_of
from agent_sandbox.host.git.repositories import GIT
from agent_sandbox.host.git.worktree import has_usual_name
from agent_sandbox.host.user_dirs import state_directory, state_name
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.render.paths import DOTENV

FOLDER = "protected"
MOST_FILES = 200
MOST_BYTES = 64 << 10
LOSSLESS = "surrogateescape"
NOT_ALONE = "not only this file: its content can also be written elsewhere"


class Held(Struct, frozen=True, kw_only=True):
    """The texts of files by their path in the project; for git's settings, each `key` with its value.

    `paths` were protected; `pending` have lost their mount, and the user has not confirmed their content yet. `stamps`
    change when git's settings, `.env` or a masked file are replaced.
    """

    texts: Mapping[str, str] = {}
    settings: Mapping[str, tuple[str, ...]] = {}
    paths: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    stamps: Mapping[str, str] = {}

    def below(self, path: str) -> dict[str, str]:
        """Return the texts of a file, or of the files in a folder."""
        return {name: text for name, text in self.texts.items() if name == path or name.startswith(f"{path}/")}


def read_held(root: Path, paths: Iterable[str]) -> Held:
    """Read the current content of these files and of the files in these folders."""
    texts = {name: text for path in paths for name, text in _texts(root, path)}
    settings = {name: _settings(root, name) for name in texts if is_settings(name)}
    return Held(texts=texts, settings=settings)


def is_settings(path: str) -> bool:
    """Return whether a file has git's settings, most of which run nothing."""
    place = Path(path)
    return (GIT in place.parts or place.is_absolute()) and place.name in {"config", "config.worktree"}


def is_of_others(path: str) -> bool:
    """Return whether a protected path is the repository of a worktree: others change it all the time."""
    return Path(path).is_absolute() and has_usual_name(Path(path)) and os.path.isdir(path)


def protected_paths(root: Path) -> tuple[str, ...]:
    """Return the paths that the project's stack mounts read-only."""
    return tuple(sorted(read_facts(root).protected))


def recorded(root: Path, environ: Mapping[str, str]) -> Held:
    """Return the snapshot of the last start, or an empty one if there is none or it is unreadable."""
    try:
        said = read_json((_folder(environ) / _name(root)).read_text("utf-8"))
        settings = {path: tuple(found) for path, found in said["settings"].items()}
        paths, pending = (tuple(said.get(name, ())) for name in ("paths", "pending"))
        stamps = dict(said.get("stamps", {}))
        return Held(texts=dict(said["texts"]), settings=settings, paths=paths, pending=pending, stamps=stamps)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Held()


def record(root: Path, environ: Mapping[str, str]) -> None:
    """Store a snapshot of the protected paths."""
    paths = protected_paths(root)
    now = read_held(root, (path for path in paths if not is_of_others(path)))
    stamped = {*now.settings, *{DOTENV}.intersection(now.texts), *read_facts(root).masked}
    _write(root, environ, replace(now, paths=paths, stamps=_stamps(root, stamped)))


def accept(root: Path, environ: Mapping[str, str], then: Held, now: Held) -> None:
    """Store the new content of files whose change was accepted."""
    texts, settings = {**then.texts, **now.texts}, {**then.settings, **now.settings}
    stamps = {**then.stamps, **_stamps(root, {*now.texts}.intersection(then.stamps))}
    texts = {path: text for path, text in texts.items() if path in then.texts}  # none of a mask
    _write(root, environ, replace(then, texts=texts, settings=settings, stamps=stamps))


def restamp(root: Path, environ: Mapping[str, str], then: Held, stamps: Mapping[str, str]) -> None:
    """Store these stamps of files whose mounts are in place."""
    _write(root, environ, replace(then, stamps={**then.stamps, **stamps}))


def settings_replaced(root: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the new stamps if another file replaced git's settings, `.env` or a masked file, which ended its mount.

    Asks no engine.
    """
    stamps = recorded(root, environ).stamps
    found = _stamps(root, stamps)
    return found if found != stamps else {}


def leave_pending(root: Path, environ: Mapping[str, str], then: Held, paths: tuple[str, ...]) -> None:
    """Store that these paths still have to be reviewed."""
    _write(root, environ, replace(then, pending=paths))


def _write(root: Path, environ: Mapping[str, str], what: Held) -> None:
    write_private(_folder(environ), {_name(root): json.dumps(to_builtins(what))})


def _folder(environ: Mapping[str, str]) -> Path:
    return state_directory(environ) / FOLDER


def _name(root: Path) -> str:
    return f"{state_name(root.resolve())}.json"


def _stamps(root: Path, paths: Iterable[str]) -> dict[str, str]:
    return {path: _stamp(root / path) for path in paths}


def _stamp(place: Path) -> str:
    # A new file may get the inode of one that is gone.
    try:
        found = place.lstat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}:{found.st_ctime_ns}"


def _texts(root: Path, path: str) -> Iterator[tuple[str, str]]:
    place = root / path
    names = [path] if os.path.islink(place) or not os.path.isdir(place) else list(_inside(root, path))
    yield from ((name, text) for name in names[:MOST_FILES] if (text := _text(root, name)) is not None)
    if len(names) > MOST_FILES:
        rest = hashlib.sha256()
        for name in names[MOST_FILES:]:  # one at a time: an agent can make a million
            rest.update((_text(root, name) or "").encode("utf-8", LOSSLESS))
        yield f"{path}/...", f"{len(names) - MOST_FILES} more files, sha256 {rest.hexdigest()}\n"


def _inside(root: Path, path: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root / path):
        folders.sort()
        inner = Path(path, os.path.relpath(folder, root / path))
        yield from (str(inner / name) for name in sorted(files))


def _settings(root: Path, path: str) -> tuple[str, ...]:
    """Return git's settings in a file; none if the agent can write the file in spite of its protection."""
    return settings_of(root / path) if is_real(root, path) and not has_two_names(root, path) else (NOT_ALONE,)


def _text(root: Path, path: str) -> str | None:
    place = root / path
    try:
        if stat.S_ISLNK(place.lstat().st_mode):
            return f"a link to {place.readlink()}\n"
        data = read_bytes(root, path, limit=MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}\n"
    if data is None:
        return None
    if len(data) > MOST_BYTES:
        return f"more than {MOST_BYTES >> 10} KiB, beginning with sha256 {hashlib.sha256(data).hexdigest()}\n"
    return f"{NOT_ALONE}\n" * has_two_names(root, path) + data.decode(errors=LOSSLESS)
