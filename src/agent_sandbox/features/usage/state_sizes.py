"""The size of what agents keep in their state volumes."""

from collections import Counter
from collections.abc import Mapping

from agent_sandbox.engines.protocol import Driver
from agent_sandbox.problems import UserError
from agent_sandbox.stack.services.agent import LOCAL, STATE


def state_sizes(driver: Driver) -> Mapping[str, int] | None:
    """Return the bytes that agents keep in all stacks of this machine, by agent; None if the engine does not say."""
    try:
        found, sizes = driver.stacks(), driver.usage(()).disk
    except UserError:
        return None
    if sizes is None:
        return None
    total = Counter[str]()
    for stack in found:
        for volume in stack.volumes:
            total[agent_of(volume.removeprefix(f"{stack.name}_"))] += sizes.get(volume, 0)
    return total


def agent_of(key: str) -> str:
    """Return the agent whose state a volume holds, or "".

    >>> agent_of("state-example..config.example"), agent_of("local-example"), agent_of("log")
    ('example', 'example', '')
    """
    for prefix in (STATE, LOCAL):
        if key.startswith(prefix):
            return key.removeprefix(prefix).partition(".")[0]
    return ""
