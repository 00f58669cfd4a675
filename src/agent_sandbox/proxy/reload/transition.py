"""One policy takes the place of another: what was begun under the old one is held against the new one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agent_sandbox.policy import Decision, Effect, Policy, Request, decide, decide_connect, decide_with_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTransition:
    """The policy that was in force, and the one that is."""

    old: Policy
    new: Policy

    def decide(self, request: Request) -> Decision:
        """Decide again on a request that is under way."""
        decision = decide_with_secrets(self.new, request)[0] if request.secrets else decide(self.new, request)
        return self._or_moved(decision, request.host, request.port)

    def decide_connect(self, host: str, port: int) -> Decision:
        """Decide again on a connection that is open."""
        return self._or_moved(decide_connect(self.new, host=host, port=port), host, port)

    def _or_moved(self, decision: Decision, host: str, port: int) -> Decision:
        if self.old.host_service(host, port) != self.new.host_service(host, port):
            return replace(decision, effect=Effect.DENY, reason=f"{host}:{port} leads elsewhere now")
        # Whoever was let in by one of them could pass for any host, for as long as his connection is used again.
        if self.old.authorities != self.new.authorities:
            return replace(decision, effect=Effect.DENY, reason="others are trusted to sign now")
        return decision

    def opens(self, host: str, port: int) -> bool:
        """Tell whether a new connection may lead there."""
        return decide_connect(self.new, host=host, port=port).allowed


class Reviewed(Protocol):
    """A connection that is open."""

    async def review(self, revision: PolicyTransition) -> bool:
        """End what is no longer allowed, and tell whether there was anything."""

    def abort(self) -> None:
        """End all of it, at once."""


class ConnectionRegistry:
    """All that is open, to be reviewed when the policy changes, and ended when the proxy does."""

    def __init__(self) -> None:
        self._open: dict[Reviewed, asyncio.Task[Any] | None] = {}

    @contextmanager
    def holding(self, connection: Reviewed) -> Iterator[None]:
        """Know of `connection` for as long as the block runs."""
        self._open[connection] = asyncio.current_task()
        try:
            yield
        finally:
            self._open.pop(connection, None)

    async def review(self, revision: PolicyTransition) -> int:
        """Review every connection; return how many had something to end. What a fault leaves unreviewed is ended."""
        left = [*self._open]
        ended = 0
        try:
            while left:
                ended += await left[-1].review(revision)
                left.pop()
        finally:
            for connection in left:
                connection.abort()
        return ended

    async def end(self, *, seconds: float) -> None:
        """End every connection, and give each that long to say what became of it; then it is cancelled."""
        serving = {task for task in self._open.values() if task is not None}
        for connection in [*self._open]:
            connection.abort()
        await _over(serving, seconds)
        left = {task for task in serving if not task.done()}
        for task in left:
            task.cancel()
        await _over(left, seconds)


async def _over(tasks: set[asyncio.Task[Any]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
