"""Take the policy file again, at once and for everything: the one path of `reload` and of the watch."""

import asyncio
from collections.abc import Awaitable, Callable

from agent_sandbox.proxy.change import change
from agent_sandbox.proxy.control import Answer
from agent_sandbox.proxy.line import Event, Line
from agent_sandbox.proxy.policystore import PolicyStore
from agent_sandbox.proxy.revision import Revision

COUNTED = (
    "policy reloaded: {added} rules added, {removed} removed, {others} other changes; "
    "{unreachable} hosts no longer reachable, {closed} connections closed"
)


class Reloader:
    """Reads, replaces, ends what is no longer allowed, and says what that was."""

    def __init__(
        self,
        store: PolicyStore,
        *,
        review: Callable[[Revision], Awaitable[int]],
        record: Callable[[Line], None],
    ) -> None:
        self._store = store
        self._review = review
        self._record = record
        # Of two at once, the one that read the file first must not be the one that comes last.
        self._one_by_one = asyncio.Lock()

    async def reload(self) -> Answer:
        """Reload, and answer. An invalid file changes nothing."""
        async with self._one_by_one:
            before = self._store.current
            problems = await self._store.reload()
            if problems:
                self._record(_line("deny", f"policy kept, the file has problems: {problems[0]}"))
                return {**self._verdict(), "ok": False, "valid": self._store.valid}
            revision = Revision(old=before, new=self._store.current)
            # Nothing is awaited between the two: no request is decided by the new policy on a connection of the old.
            closed = await self._review(revision)
            changed = await asyncio.to_thread(change, revision.old, revision.new)
            self._record(_line("allow", COUNTED.format(**changed.counts, closed=closed)))
            return {**self._verdict(), "ok": True, "change": changed.told(), "closed": closed}

    def _verdict(self) -> Answer:
        return {"digest": self._store.current.digest, "problems": [str(problem) for problem in self._store.problems]}


def _line(decision: str, reason: str) -> Line:
    return Line(event=Event.POLICY, decision=decision, reason=reason)
