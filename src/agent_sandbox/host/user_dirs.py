"""The user's directories for configuration, state and cache, by the XDG rules on every system."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

NAME = "agent-sandbox"
PROJECT = ".devcontainer"  # in the directory of a project
ORGANISATION = Path("/etc") / NAME


def home_directory(environ: Mapping[str, str]) -> Path | None:
    """Return HOME if it is an absolute path, else None."""
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None


def config_directory(environ: Mapping[str, str]) -> Path | None:
    """Return `~/.config/agent-sandbox`, or None without a home directory."""
    return _place(environ, "XDG_CONFIG_HOME", ".config")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return `~/.local/state/agent-sandbox`; without a home directory, a folder under /tmp."""
    return _place(environ, "XDG_STATE_HOME", ".local/state") or Path(f"/tmp/{NAME}-{environ.get('USER', 'state')}")  # noqa: S108 - no home is left


def state_file(folder: str, path: Path, environ: Mapping[str, str]) -> Path:
    """Return the file in a folder of the user's state that is about this path."""
    return state_directory(environ) / folder / f"{_digest(path.absolute())}.json"


def state_name(root: Path) -> str:
    """Return what names the files and folders of the user's state that are about the project in this directory."""
    return _digest(root)[:32]


def cache_directory(environ: Mapping[str, str]) -> Path | None:
    """Return `~/.cache/agent-sandbox`, or None without a home directory."""
    return _place(environ, "XDG_CACHE_HOME", ".cache")


def private_cache(environ: Mapping[str, str]) -> Path | None:
    """Return the cache directory, or None without one or if an agent could write to it."""
    folder = cache_directory(environ)
    try:
        if folder is None or any(os.path.exists(above / PROJECT) for above in folder.resolve().parents):
            return None
    except (OSError, RuntimeError):  # unreachable, or a loop of links
        return None
    return folder


def layer_folders(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the policy directories of the user and the organisation, by layer name, lowest first."""
    user = config_directory(environ)
    return ({"user": user} if user else {}) | {"organisation": ORGANISATION}


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _place(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    chosen = Path(environ.get(variable, ""))
    if chosen.is_absolute():
        return chosen / NAME
    home = home_directory(environ)
    return home / below_home / NAME if home else None
