"""Pin the directory of the policy file: a restarted container mounts whatever directory is at that path now.

If the directory was replaced on the host machine, as by a checkout, the agent can write to the new one. It can also
exhaust the proxy, which then restarts, and so put its own policy in force without the user's approval. A container
therefore accepts a changed policy from a replaced directory only after it is recreated.
"""

import json
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import read_json
from agent_sandbox.policy import Policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.reload.policy_store import Load

WHAT = "its directory was replaced on the host after the proxy was created, and now has a different policy"
HINT = "check who wrote it, then run agent-sandbox up to recreate the proxy"


class SourcePin(Struct, frozen=True, kw_only=True):
    """Stores in the file `memory` the directory and digest of the policy that `container` loaded last."""

    load: Load
    memory: Path
    container: str

    def take(self, path: Path) -> Policy:
        """Load the policy. Raises UserError if both the policy and its directory have changed."""
        policy = self.load(path)
        container, folder, digest = self._remembered()
        now = path.parent.stat().st_ino
        if container == self.container and folder != now and digest != policy.digest:
            raise UserError([Problem(where=str(path), what=WHAT, hint=HINT)])
        self._remember([self.container, now, policy.digest])
        return policy

    def _remembered(self) -> list[object]:
        with suppress(OSError, ValueError):
            stored = read_json(self.memory.read_bytes())
            if isinstance(stored, list) and len(stored) == 3:
                return stored
        return ["", 0, ""]

    def _remember(self, pin: list[object]) -> None:
        # On a full disk the previous pin stays, which is no less strict.
        with suppress(OSError):
            self.memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self.memory, json.dumps(pin).encode())
