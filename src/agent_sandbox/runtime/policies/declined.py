"""Remember which suggestions the user declined for a policy file, in the user's state directory."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.runtime.host.files import write_all
from agent_sandbox.runtime.host.project_lock import project_lock
from agent_sandbox.runtime.host.user_dirs import state_directory, state_file

FOLDER = "declined"
MOST = 1_000


def load_declined(policy: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the declined rules; a damaged record counts as none."""
    try:
        found = read_json(state_file(FOLDER, policy, environ).read_text("utf-8"))
    except (OSError, ValueError, NotJsonError):
        return frozenset()
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def save_declined(policy: Path, rules: Collection[str], environ: Mapping[str, str]) -> None:
    """Add these rules to the record."""
    place = state_file(FOLDER, policy, environ)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with project_lock(policy.absolute().parent.parent, state_directory(environ)):
        every = sorted({*rules, *load_declined(policy, environ)})
        write_all(place.parent, {place.name: json.dumps(every[:MOST])})
