"""Reload the policy files, for both `proxy reload` and `reload: watch`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Policy
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.control.channel import Answer
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition

if TYPE_CHECKING:
    from agent_sandbox.proxy.reload.policy_diff import Change

COUNTED = (
    "policy reloaded: {added} rules added, {removed} removed, {others} other changes; "
    "{unreachable} hosts no longer reachable, {closed} connections closed"
)


type Taken = tuple[PolicyTransition, int]


async def _here(work: Coroutine[Any, Any, Taken]) -> Taken:
    return await work


class Reloader:
    """Reads the policy, puts it in force, ends what it no longer allows, and reports the changes.

    It may run in the side thread; `in_traffic` runs the one step that must run in the traffic loop.
    """

    def __init__(
        self,
        store: PolicyStore,
        *,
        review: Callable[[PolicyTransition], Awaitable[int]],
        record: Callable[[AuditRecord], None],
        in_traffic: Callable[[Coroutine[Any, Any, Taken]], Awaitable[Taken]] = _here,
        publish: Callable[[Policy], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._review = review
        self._record = record
        self._in_traffic = in_traffic
        self._publish = publish
        # Of two concurrent reloads, the one that read the older file must not finish last.
        self._one_by_one = asyncio.Lock()

    async def reload(self) -> Answer:
        """Reload and return the result. An invalid file changes nothing."""
        async with self._one_by_one:
            policy = await self._store.read()
            if policy is None:
                self._record(
                    _line(Effect.DENY, f"policy not reloaded, the file has problems: {self._store.problems[0]}")
                )
                return {**self._outcome(), "ok": False, "valid": self._store.valid}
            revision, closed = await self._in_traffic(self._replace(policy))
            await asyncio.to_thread(self._publish, policy)
            changed = await asyncio.to_thread(_change, revision.old, revision.new)
            self._record(_line(Effect.ALLOW, COUNTED.format(**changed.counts, closed=closed)))
            return {**self._outcome(), "ok": True, "change": changed.summary(), "closed": closed}

    async def _replace(self, policy: Policy) -> Taken:
        old = self._store.current
        self._store.replace(policy)
        revision = PolicyTransition(old=old, new=self._store.current)
        # No await in between, so the new policy decides no request on a connection that is not reviewed yet.
        return revision, await self._review(revision)

    def _outcome(self) -> Answer:
        return {"digest": self._store.current.digest, "problems": [str(problem) for problem in self._store.problems]}


def _line(decision: Effect, reason: str) -> AuditRecord:
    return AuditRecord(event=Event.POLICY, decision=decision, reason=reason)


def _change(old: Policy, new: Policy) -> "Change":
    from agent_sandbox.proxy.reload.policy_diff import change  # noqa: PLC0415 - only a reload compares

    return change(old, new)
