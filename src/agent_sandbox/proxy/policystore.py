"""The policy in force. It is replaced whole, or not at all."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from agent_sandbox.policy import Policy
from agent_sandbox.policyfile import load_policy
from agent_sandbox.problems import Problem, UserError

TOLD = 3  # of the problems; a denial is no place for a hundred

Load = Callable[[Path], Policy]


class PolicyStore:
    """Holds the last good policy of `path`; before there is one, a policy that denies all and says why.

    `name` is what people know the file by, where it lies elsewhere for them.
    """

    def __init__(self, path: Path, *, name: str = "", load: Load = load_policy) -> None:
        self._path = path
        self._name = name or str(path)
        self._load = load
        self.problems: tuple[Problem, ...] = ()
        self.current = self._first()

    def _first(self) -> Policy:
        try:
            return self._load(self._path)
        except UserError as error:
            self.problems = self._named(error.problems)
            more = len(self.problems) - TOLD
            told = "; ".join((*map(str, self.problems[:TOLD]), *([f"and {more} more"] if more > 0 else [])))
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
            return self._named(error.problems)
        self.current, self.problems = policy, ()
        return ()

    def _named(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        path = str(self._path)
        return tuple(
            replace(problem, where=self._name + problem.where.removeprefix(path))
            if problem.where.startswith(path)
            else problem
            for problem in problems
        )

    def status(self) -> dict[str, object]:
        """Describe the policy for `status`."""
        return {
            "file": self._name,
            "digest": self.current.digest,
            "valid": self.valid,
            "problems": [str(problem) for problem in self.problems],
        }
