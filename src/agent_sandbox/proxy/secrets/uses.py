"""Count how often each secret was injected, and when last, in a file that survives a restart of the proxy.

Which server refused a secret is only in memory: the next request shows it again.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import read_json
from agent_sandbox.proxy.audit.record import SecretUse


class Used(NamedTuple):
    """How often a secret was injected, and when last, in seconds of the epoch."""

    uses: int = 0
    last_use: float = 0.0


class Refusal(NamedTuple):
    """When a server refused a secret, in seconds of the epoch, and which one."""

    time: float
    host: str


# The first status of an error.
ERROR = 400


def uses_file(folder: Path) -> Path:
    """Return the file for the secrets in this folder, beside it in a volume that only the proxy mounts."""
    return folder.parent / "private" / "secret-uses.json"


def read_uses(path: Path) -> Mapping[str, Used]:
    """Return the uses by secret; nothing for a file that is missing or damaged."""
    try:
        said = read_json(path.read_bytes())
        return {str(name): Used(int(uses), float(last)) for name, (uses, last) in said.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return {}


class Uses:
    """Counts uses in memory; `keep` writes them to the file."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._used = dict(read_uses(path))
        self._written = dict(self._used)
        self._refusals: dict[tuple[str, str], Refusal] = {}

    def count(self, uses: Iterable[SecretUse], host: str, status: int | None, *, refused: bool = False) -> None:
        """Count the secrets of one request; `status` is the response's, `refused` whether the server refused them."""
        for name in {one.secret for one in uses}:
            self._used[name] = Used(self._used.get(name, Used()).uses + 1, self._clock())
            if refused:
                self._refusals[name, host] = Refusal(self._clock(), host)
            elif status is not None and status < ERROR:
                self._refusals.pop((name, host), None)

    def refusal(self, name: str) -> Refusal | None:
        """Return the last refusal of a secret by a server that has not accepted it since."""
        found = (one for (secret, _), one in dict(self._refusals).items() if secret == name)
        return max(found, default=None)

    def write(self) -> None:
        """Write the counts if they have changed. If that fails, they are written next time."""
        used = dict(self._used)
        if used == self._written:
            return
        with suppress(OSError):
            write_file(self._path, json.dumps(used).encode("ascii"))
            self._written = used
