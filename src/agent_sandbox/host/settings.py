"""Make checked copies of the user's own settings of agents, which the sandbox mounts read-only.

The copies are in the state directory; the originals are never mounted. Links are not followed, and number, depth and
size of the files are limited.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent_sandbox.agents.together import Agents
from agent_sandbox.bounded_json import read_json
from agent_sandbox.host.files import problem_of, read_text
from agent_sandbox.host.user_dirs import home_directory, state_directory
from agent_sandbox.problems import UserError

if TYPE_CHECKING:
    from agent_sandbox.agents.manifest import AgentManifest

FOLDER = "settings"
MOST_FILES, MOST_BYTES, MOST_DEPTH, MOST_FILE_BYTES = 500, 4 << 20, 6, 256 << 10
# Text that an agent reads. Everything else of a directory stays on the host machine.
SUFFIXES = frozenset({".js", ".json", ".md", ".mjs", ".py", ".sh", ".toml", ".ts", ".txt", ".yaml", ".yml"})
# Names of files that usually hold a credential.
CREDENTIAL = re.compile(
    r"credential|secret|passw|token|id_(rsa|dsa|ecdsa|ed25519)|(^|[._-])(auth|keys?)[._-]", re.IGNORECASE
)
PRIVATE_KEY = "PRIVATE KEY-----"
PLAIN = (str, bool, int)


class Taken(Struct, frozen=True, kw_only=True):
    """The files to copy, by path below the home directory, and why others are not copied."""

    files: Mapping[str, str]
    left: tuple[str, ...] = ()


def folder_of(stack: str, environ: Mapping[str, str]) -> Path:
    """Return the directory with the copies for a stack."""
    return state_directory(environ).absolute() / FOLDER / stack


def user_settings(agents: Agents, environ: Mapping[str, str]) -> Taken:
    """Return the user's settings to copy for these agents."""
    home = home_directory(environ)
    if home is None:
        return Taken(files={})
    files: dict[str, str] = {}
    left: list[str] = []
    for manifest in agents.manifests:
        for path in _paths(home, manifest, left):
            text = _text(home, path, manifest, left)
            if text is None:
                continue
            if len(files) >= MOST_FILES or sum(map(len, files.values())) + len(text) > MOST_BYTES:
                left.append(f"{path} and more: {MOST_FILES} files or {MOST_BYTES >> 20} MiB are taken along at most")
                return Taken(files=files, left=tuple(left))
            files[path] = text
    return Taken(files=files, left=tuple(left))


def _paths(home: Path, manifest: "AgentManifest", left: list[str]) -> Iterator[str]:
    """Yield the files that a manifest names, those in its directories included."""
    for path in (*manifest.settings.keys, *manifest.settings.files):
        place = home / path
        if place.is_symlink():
            left.append(f"{path}: it is a link")
        elif place.is_dir():
            yield from _below(home, path, left)
        elif place.exists():
            yield path


def _below(home: Path, path: str, left: list[str], depth: int = 1) -> Iterator[str]:
    if depth > MOST_DEPTH:
        left.append(f"{path}: it is deeper than {MOST_DEPTH} directories")
        return
    try:
        found = sorted(os.scandir(home / path), key=lambda one: one.name)
    except OSError as error:
        left.append(f"{path}: {problem_of(path, error).what}")
        return
    for one in found[: MOST_FILES + 1]:
        inner = f"{path}/{one.name}"
        if one.is_symlink():
            left.append(f"{inner}: it is a link")
        elif one.is_dir(follow_symlinks=False):
            if not one.name.startswith("."):
                yield from _below(home, inner, left, depth + 1)
        else:
            yield inner


def _text(home: Path, path: str, manifest: "AgentManifest", left: list[str]) -> str | None:
    """Return the text to copy of a file, or None with the reason in `left`."""
    try:
        text = read_text(home, path) or ""
    except UserError as error:
        left += [f"{path}: {problem.what}" for problem in error.problems]
        return None
    why = unfit(path, text) or ("it is larger than 256 KiB" if len(text.encode()) > MOST_FILE_BYTES else "")
    if why:
        left.append(f"{path}: {why}")
        return None
    if path not in manifest.settings.keys:
        return text
    try:
        return kept_keys(path, text, manifest.settings.keys[path], manifest.unattended.files.get(path, ""))
    except (ValueError, RecursionError):
        left.append(f"{path}: it cannot be read")
        return None


def write_settings(folder: Path, files: Mapping[str, str]) -> None:
    """Write the copies, readable for the user in the container, and remove what is no longer there.

    The directory itself stays, because containers have it mounted.
    """
    if folder.is_dir() and _present(folder) == files:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
        for path, text in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            place.chmod(0o644)
            for parent in place.parents:
                if parent == folder:
                    break
                parent.chmod(0o755)
    except OSError as error:
        raise UserError([problem_of(str(folder), error)]) from error


def _present(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace") for path in files}


def forget_settings(stack: str, environ: Mapping[str, str]) -> None:
    """Remove the copies for a stack."""
    shutil.rmtree(folder_of(stack, environ), ignore_errors=True)


def unfit(path: str, text: str) -> str:
    """Return why a file of the user's is not copied, or an empty string.

    >>> unfit("skills/a/SKILL.md", ""), unfit("skills/.env", "")
    ('', 'its name begins with a dot')
    """
    name = PurePosixPath(path).name
    if name.startswith("."):
        return "its name begins with a dot"
    if PurePosixPath(name).suffix not in SUFFIXES:
        return "it is not a text file that agents read"
    if CREDENTIAL.search(name):
        return "its name is that of a credential"
    return "it contains a private key" if PRIVATE_KEY in text else ""


def kept_keys(path: str, text: str, keys: Sequence[str], first: str) -> str:
    """Return a settings file with only these keys of the user's, over what the image would put there first.

    A value is kept if it is a plain value or a list of them. Raise ValueError if the user's file cannot be read.
    """
    is_json = path.endswith(".json")
    read = read_json(text) if is_json else tomllib.loads(text)
    said = read if isinstance(read, dict) else {}
    kept = {key: said[key] for key in keys if key in said and _is_plain(said[key])}
    if is_json:
        return json.dumps({**kept, **(read_json(first) if first else {})}, indent=2) + "\n"
    taken = tomllib.loads(first)
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in kept.items() if key not in taken)
    return "".join(lines) + first


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - whatever a settings file holds
    return isinstance(value, PLAIN) or (isinstance(value, list) and all(isinstance(one, PLAIN) for one in value))
