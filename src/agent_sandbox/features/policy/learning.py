"""Store the start of a project's recording for `policy learn`, in the user's state directory."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, to_builtins

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.host.files import write_all
from agent_sandbox.host.user_dirs import state_file

FOLDER = "learning"


class Recording(Struct, frozen=True, kw_only=True):
    """Since when requests are recorded, in UTC, and whether the proxy was told to allow them meanwhile."""

    since: str
    allows: bool = False


def load_recording(root: Path, environ: Mapping[str, str]) -> Recording | None:
    """Return the recording, None if none was started or its file is damaged."""
    try:
        found = read_json(state_file(FOLDER, root, environ).read_text("utf-8"))
    except (OSError, ValueError, NotJsonError):
        return None
    since = found.get("since") if isinstance(found, dict) else None
    return Recording(since=since, allows=found.get("allows") is True) if isinstance(since, str) else None


def save_recording(root: Path, recording: Recording, environ: Mapping[str, str]) -> None:
    """Replace the record."""
    place = state_file(FOLDER, root, environ)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_all(place.parent, {place.name: json.dumps({"root": str(root.absolute()), **to_builtins(recording)})})


def forget_recording(root: Path, environ: Mapping[str, str]) -> None:
    """Remove the record."""
    with suppress(OSError):
        state_file(FOLDER, root, environ).unlink()
