"""The objects that all client connections share, whatever serves them."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from agent_sandbox.policy import Policy
from agent_sandbox.policy.engine.rule_set import Budgeted
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.exchange import Spend, spend_freely
from agent_sandbox.proxy.exchange.hooks import Hooks
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.fair_scheduler import FairScheduler
from agent_sandbox.proxy.upstream.dialler import Dialler
from agent_sandbox.proxy.upstream.pool import ServerPool

# After a denial ends a connection, the client has this long to read it.
LINGER_SECONDS = 1.0


class Engine(Struct, frozen=True, kw_only=True):
    """The objects that all sessions share."""

    hooks: Hooks
    dialler: Dialler
    limits: Limits
    record: Callable[[AuditRecord], None]
    policy: Callable[[], Policy]
    spender: Callable[[Sequence[Budgeted]], Spend] = lambda _: spend_freely
    sessions: set[object] = set()
    turns: FairScheduler = field(default_factory=lambda: FairScheduler(time.monotonic))
    # At most one: that of the lane, once it has served a client.
    pools: list[ServerPool[Any]] = []

    @property
    def crowded(self) -> float:
        """The number of sessions relative to `Limits.crowd`; above 1, each session may buffer less."""
        return len(self.sessions) / self.limits.crowd
