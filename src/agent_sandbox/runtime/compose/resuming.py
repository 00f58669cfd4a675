"""Unpause containers and wait for their next health check.

The engine calls a paused container `unhealthy` and, after `unpause`, keeps calling it that until the next check is
due. Until then, compose refuses to start anything that depends on it.
"""

import time
from collections.abc import Callable, Sequence

from agent_sandbox.runtime.compose.containers import containers
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.driver.container import Container

SECONDS = 0.5  # seconds between two polls


def resumed(
    engine: Engine,
    project: str,
    found: Sequence[Container],
    *,
    tell: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Container, ...]:
    """Return the project's containers once none is paused and each was checked again."""
    found = tuple(found)
    paused = [container for container in found if container.state == "paused"]
    if paused:
        tell(f"unpausing {_names(paused)}")
        engine.answer("unpause", *(container.id for container in paused), doing="unpausing the stack")
        found = containers(engine, project)
    unchecked = [container for container in found if container.unchecked]
    if unchecked:
        tell(f"waiting for the next health check of {_names(unchecked)}, which was paused")
        # Count polls, not time: after a machine sleeps, the check still gets its chance.
        for _ in range(int(max(container.check_seconds for container in unchecked) / SECONDS) + 1):
            sleep(SECONDS)
            found = containers(engine, project)
            if not any(container.unchecked for container in found):
                break
    return found


def _names(found: Sequence[Container]) -> str:
    return ", ".join(container.service for container in found)
