"""Check open connections and requests against a new policy when it replaces the old one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy import Decision, Effect, Policy, Request, decide, decide_connect, decide_with_secrets
from agent_sandbox.policy.engine.rule import Rule


class PolicyTransition(Struct, frozen=True, kw_only=True):
    """The old policy and the new one."""

    old: Policy
    new: Policy

    def granting(self, rules: tuple[Rule, ...]) -> "PolicyTransition":
        """Return the transition for requests to which a person granted this in addition."""
        return replace(self, new=self.new.granting(rules)) if rules else self

    def decide(self, request: Request) -> Decision:
        """Decide again on a request in progress."""
        decision = decide_with_secrets(self.new, request)[0] if request.secrets else decide(self.new, request)
        return self._or_moved(decision, request.host, request.port)

    def decide_connect(self, host: str, port: int) -> Decision:
        """Decide again on an open connection."""
        return self._or_moved(decide_connect(self.new, host=host, port=port), host, port)

    def _or_moved(self, decision: Decision, host: str, port: int) -> Decision:
        if self.old.host_service(host, port) != self.new.host_service(host, port):
            return replace(decision, effect=Effect.DENY, reason=f"{host}:{port} now leads to a different address")
        if self.old.upstream_proxy(host) != self.new.upstream_proxy(host):
            return replace(decision, effect=Effect.DENY, reason=f"{host} now has a different upstream proxy")
        # A server that was accepted because of a removed CA must not be used any longer.
        if self.old.authorities != self.new.authorities:
            return replace(decision, effect=Effect.DENY, reason="the trusted CAs changed")
        return decision

    def opens(self, host: str, port: int) -> bool:
        """Return whether the new policy allows a connection there."""
        return decide_connect(self.new, host=host, port=port).allowed


class Reviewed(Protocol):
    """An open connection."""

    async def review(self, revision: PolicyTransition) -> bool:
        """End what is no longer allowed, and return whether there was anything to end."""

    def abort(self) -> None:
        """Reset the connection at once."""


class ConnectionRegistry:
    """All open connections: reviewed when the policy changes, ended when the proxy stops."""

    def __init__(self) -> None:
        self._open: dict[Reviewed, asyncio.Task[Any] | None] = {}

    @contextmanager
    def holding(self, connection: Reviewed) -> Iterator[None]:
        """Register `connection` while the block runs."""
        self._open[connection] = asyncio.current_task()
        try:
            yield
        finally:
            self._open.pop(connection, None)

    async def review(self, revision: PolicyTransition) -> int:
        """Review every connection; return how many had something to end. After an error, end all unreviewed ones."""
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
        """End every connection. Cancel those that take more than `seconds` to write their audit record."""
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
