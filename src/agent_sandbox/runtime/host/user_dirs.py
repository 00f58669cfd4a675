"""Where a user's own files live: configuration and state, by the XDG rules on every system."""

from collections.abc import Mapping
from pathlib import Path

NAME = "agent-sandbox"
ORGANISATION = Path("/etc") / NAME


def home_directory(environ: Mapping[str, str]) -> Path | None:
    """Return HOME where it is set to an absolute path; nothing is guessed when it is not."""
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None


def config_directory(environ: Mapping[str, str]) -> Path | None:
    """Return `~/.config/agent-sandbox`, or None where there is no home."""
    return _place(environ, "XDG_CONFIG_HOME", ".config")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return `~/.local/state/agent-sandbox`; without a home, a folder of the user's own under /tmp."""
    return _place(environ, "XDG_STATE_HOME", ".local/state") or Path(f"/tmp/{NAME}-{environ.get('USER', 'state')}")  # noqa: S108 - no home is left


def cache_directory(environ: Mapping[str, str]) -> Path | None:
    """Return `~/.cache/agent-sandbox`, or None where there is no home."""
    return _place(environ, "XDG_CACHE_HOME", ".cache")


def layer_folders(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return where the policies of the user and of the organisation lie, by the names of their layers, lowest first."""
    user = config_directory(environ)
    return ({"user": user} if user else {}) | {"organisation": ORGANISATION}


def _place(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    chosen = Path(environ.get(variable, ""))
    if chosen.is_absolute():
        return chosen / NAME
    home = home_directory(environ)
    return home / below_home / NAME if home else None
