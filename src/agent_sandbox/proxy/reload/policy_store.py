"""The policy in force. It is replaced whole, or not at all."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agent_sandbox.policy import Policy
from agent_sandbox.problems import Problem, UserError

TOLD = 3  # of the problems; a denial is no place for a hundred

Load = Callable[[Path], Policy]


def now_utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class PolicyStore:
    """Holds the last good policy of `path`; before there is one, a policy that denies all and says why.

    `problems` are those of the file when it was last looked at, whatever is in force. `name` is what people know the
    file by, where it lies elsewhere for them.
    """

    def __init__(self, path: Path, *, load: Load, name: str = "", now: Callable[[], datetime] = now_utc) -> None:
        self._path = path
        self._name = name or str(path)
        self._load = load
        self._now = now
        self._loaded: datetime | None = None
        self._problems_since: datetime | None = None
        self.problems: tuple[Problem, ...] = ()
        self.current = self._first()

    def _first(self) -> Policy:
        try:
            return self._take(self._load(self._path))
        except UserError as error:
            self._keep(error)
            more = len(self.problems) - TOLD
            told = "; ".join((*map(str, self.problems[:TOLD]), *([f"and {more} more"] if more > 0 else [])))
            return Policy.deny_all(f"the policy is not in force, so nothing is allowed: {told}")

    @property
    def valid(self) -> bool:
        """Whether the policy in force was read from the file, now or before it had problems."""
        return self._loaded is not None

    async def read(self) -> Policy | None:
        """Read the file again and return its policy, which is not in force yet; None where it has problems."""
        try:
            return await asyncio.to_thread(self._load, self._path)
        except UserError as error:
            self._keep(error)
            return None

    def replace(self, policy: Policy) -> None:
        """Put a policy that was read in force."""
        self.current = self._take(policy)

    def _take(self, policy: Policy) -> Policy:
        self._loaded, self._problems_since, self.problems = self._now(), None, ()
        return policy

    def _keep(self, error: UserError) -> None:
        self.problems = self._named(error.problems)
        self._problems_since = self._problems_since or self._now()

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
        upstream = self.current.settings.upstream
        return {
            "file": self._name,
            "digest": self.current.digest,
            "valid": self.valid,
            "loaded": _said(self._loaded),
            "problems_since": _said(self._problems_since),
            "problems": [str(problem) for problem in self.problems],
            "upstream": [f"{what} ({upstream.origin})" for what in upstream.descriptions()] if upstream else [],
        }


def _said(time: datetime | None) -> str | None:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z") if time else None
