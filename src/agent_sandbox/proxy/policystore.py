"""The policy in force. It is replaced whole, or not at all."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent_sandbox.policy import Policy
from agent_sandbox.policyfile import load_policy
from agent_sandbox.problems import Problem, UserError

Load = Callable[[Path], Policy]


class PolicyStore:
    """Holds the last good policy of `path`; before there is one, a policy that denies all and says why."""

    def __init__(self, path: Path, *, load: Load = load_policy) -> None:
        self._path = path
        self._load = load
        self.problems: tuple[Problem, ...] = ()
        self.current = self._first()

    def _first(self) -> Policy:
        try:
            return self._load(self._path)
        except UserError as error:
            self.problems = error.problems
            told = "; ".join(map(str, error.problems[:3]))
            return Policy.deny_all(f"the policy is not in force, so nothing is allowed: {told}")

    @property
    def valid(self) -> bool:
        """Whether the file could be read when it was last looked at."""
        return not self.problems

    async def reload(self) -> tuple[Problem, ...]:
        """Read the file again. Problems leave the policy in force as it was, and are returned."""
        try:
            policy = await asyncio.to_thread(self._load, self._path)
        except UserError as error:
            return error.problems
        self.current, self.problems = policy, ()
        return ()

    def status(self) -> dict[str, object]:
        """Describe the policy for `status`."""
        return {
            "file": str(self._path),
            "digest": self.current.digest,
            "valid": self.valid,
            "problems": [str(problem) for problem in self.problems],
        }
