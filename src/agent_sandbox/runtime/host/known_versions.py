"""The newest versions of agents that `update` has found, so that `agents` can show them without a request."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_sandbox.agents.pin import VERSION
from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.host.files import read_text, write_all

FILE = "versions.json"


def known_versions(state: Path) -> dict[str, str]:
    """Return the newest version of each agent that was ever looked up, by the agent's name."""
    with suppress(OSError, ValueError, UserError):
        found = read_json(read_text(state, FILE) or "{}")
        rows = found.items() if isinstance(found, dict) else ()
        return {name: version for name, version in rows if isinstance(version, str) and VERSION.fullmatch(version)}
    return {}


def remember_versions(state: Path, found: Mapping[str, str]) -> None:
    """Store newly found versions, and keep those of other agents."""
    with suppress(OSError, UserError):  # only a list lacks it then
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_all(state, {FILE: json.dumps({**known_versions(state), **found}, indent=2, sort_keys=True) + "\n"})
