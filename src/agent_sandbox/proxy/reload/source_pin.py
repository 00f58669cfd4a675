"""Does the policy lie in the folder in which it lay? An engine that starts a container again mounts what is there now.

Where the host has replaced the folder since, as a checkout does, the agent can write the new one; and it can use the
proxy up, which then comes back by itself. A policy of the agent's would be in force, and nobody would have been asked.
So a container takes another policy from another folder only when it has been made anew.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.bounded_json import read_json
from agent_sandbox.policy import Policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.reload.policy_store import Load

WHAT = "its folder was replaced on the host since the proxy was made, and another policy lies there now"
HINT = "look who wrote it; then agent-sandbox up makes the proxy anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePin:
    """Remembers, in `memory`, the folder of the policy that `container` took last, and what that came to."""

    load: Load
    memory: Path
    container: str

    def take(self, path: Path) -> Policy:
        """Load the policy; raise UserError where it is another one, from another folder."""
        policy = self.load(path)
        container, folder, digest = self._remembered()
        now = path.parent.stat().st_ino
        if container == self.container and folder != now and digest != policy.digest:
            raise UserError([Problem(where=str(path), what=WHAT, hint=HINT)])
        self._remember([self.container, now, policy.digest])
        return policy

    def _remembered(self) -> list[object]:
        with suppress(OSError, ValueError):
            said = read_json(self.memory.read_bytes())
            if isinstance(said, list) and len(said) == 3:
                return said
        return ["", 0, ""]

    def _remember(self, said: list[object]) -> None:
        # With a full disk what was remembered before stands: it knows less, and refuses no less.
        part = self.memory.with_suffix(".new")
        with suppress(OSError):
            self.memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(json.dumps(said))
            part.replace(self.memory)
