"""What the first request of a kind would have to wait for, done before it comes: the parser of GraphQL is imported."""

import asyncio
from collections.abc import Callable
from importlib import import_module

from agent_sandbox.policy import Policy

PARSER = "agent_sandbox.policy.http.graphql_document"
# By then the agent has started: nothing that it waits for is slowed down.
LATER_SECONDS = 5.0


async def warm_up(policy: Callable[[], Policy], *, after: float = LATER_SECONDS) -> None:
    """Import it beside the event loop, which would stand still meanwhile, if the policy in force asks for it."""
    await asyncio.sleep(after)
    if policy().asks_operations:
        await asyncio.to_thread(import_module, PARSER)
