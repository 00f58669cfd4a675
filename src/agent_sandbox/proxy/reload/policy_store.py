"""The policy in force. A new one replaces it completely or not at all."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.grants import Grants
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.reload.transition import PolicyTransition

SHOWN_PROBLEMS = 3  # at most so many in a denial

Load = Callable[[Path], Policy]


def _nothing() -> None:
    pass


def now_utc() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


class PolicyStore:
    """Holds the last valid policy of `path`; until there is one, a policy that denies everything and says why.

    `problems` are those of the file when it was last read, even if an older policy is in force. `name` is the file
    name to show in messages, if the user knows the file by another path. `on_change` is called after each change.
    """

    def __init__(self, path: Path, *, load: Load, name: str = "", now: Callable[[], datetime] = now_utc) -> None:
        self._path = path
        self._name = name or str(path)
        self._load = load
        self._now = now
        self._loaded: datetime | None = None
        self._problems_since: datetime | None = None
        self.problems: tuple[Problem, ...] = ()
        self._granted: Grants | None = None
        self.on_change: Callable[[], None] = _nothing
        self.current = self._first()

    def _first(self) -> Policy:
        try:
            return self._take(self._load(self._path))
        except UserError as error:
            self._keep(error)
            more = len(self.problems) - SHOWN_PROBLEMS
            shown = (*map(str, self.problems[:SHOWN_PROBLEMS]), *([f"and {more} more"] if more > 0 else []))
            return Policy.deny_all(f"the policy could not be loaded, so everything is denied: {'; '.join(shown)}")

    @property
    def valid(self) -> bool:
        """Whether the policy in force was read from the file, even if the file has problems by now."""
        return self._loaded is not None

    async def read(self) -> Policy | None:
        """Read the file again and return its policy without putting it in force; None if it has problems."""
        try:
            return await asyncio.to_thread(self._load, self._path)
        except UserError as error:
            self._keep(error)
            return None

    def replace(self, policy: Policy) -> None:
        """Put `policy` in force, with the grants as they are."""
        self._take(policy)
        self.current = dataclasses.replace(policy, granted=self._granted) if self._granted else policy
        self.on_change()

    def grant(self, rules: tuple[Rule, ...]) -> PolicyTransition:
        """Put these grants in force instead of the ones before. Raises ValueError if one cannot be a grant."""
        old, self._granted = self.current, Grants(rules=rules) if rules else None
        self.current = dataclasses.replace(old, granted=self._granted)
        self.on_change()
        return PolicyTransition(old=old, new=self.current)

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
        """Return the state of the policy, for `status`."""
        upstream = self.current.settings.upstream
        return {
            "file": self._name,
            "digest": self.current.digest,
            "valid": self.valid,
            "loaded": _timestamp(self._loaded),
            "problems_since": _timestamp(self._problems_since),
            "problems": [str(problem) for problem in self.problems],
            "upstream": [f"{what} ({upstream.origin})" for what in upstream.descriptions()] if upstream else [],
        }


def _timestamp(time: datetime | None) -> str | None:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z") if time else None
