"""Import the GraphQL parser ahead of the first request that needs it."""

import asyncio
from collections.abc import Callable
from importlib import import_module

from agent_sandbox.policy import Policy

PARSER = "agent_sandbox.policy.http.graphql_document"
# By then the agent has started, so the import does not slow down its start.
LATER_SECONDS = 5.0


async def warm_up(policy: Callable[[], Policy], *, after: float = LATER_SECONDS) -> None:
    """Import the parser if the policy in force needs it, in a thread: the import would block the event loop."""
    await asyncio.sleep(after)
    if policy().asks_operations:
        await asyncio.to_thread(import_module, PARSER)
