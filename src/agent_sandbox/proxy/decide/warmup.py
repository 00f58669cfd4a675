"""Import the parsers of request bodies ahead of the first request that needs them."""

import asyncio
from collections.abc import Callable
from importlib import import_module

from agent_sandbox.policy import Policy

BODIES = "agent_sandbox.policy.http.body"
PARSER = "agent_sandbox.policy.http.graphql_document"
# By then the agent has started, so the import does not slow down its start.
LATER_SECONDS = 5.0


async def warm_up(policy: Callable[[], Policy], *, after: float = LATER_SECONDS) -> None:
    """Import the parsers that the policy in force needs, in a thread: the import would block the event loop."""
    await asyncio.sleep(after)
    if policy().asks_operations or policy().asks_messages:
        await asyncio.to_thread(import_module, BODIES)
    if policy().asks_operations:
        await asyncio.to_thread(import_module, PARSER)
