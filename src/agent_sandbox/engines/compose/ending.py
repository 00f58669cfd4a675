"""Tell what a start would end: programs that somebody runs in an agent container that compose would recreate."""

import re
from collections.abc import Callable

from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.compose.plan import CREATE, ComposePlanner
from agent_sandbox.engines.container import Container
from agent_sandbox.printable import printable
from agent_sandbox.project.project import Project

COLUMNS = "pid,ppid,comm"
# The container's own init, its health check, and the relays of ports.
OURS = frozenset({"docker-init", "healthy", "python3"})
RECREATES = r"Container {}-agent-1\s+Recreate$"  # with the name of the stack


def would_end(
    engine: Engine, planner: ComposePlanner, project: Project, agent: Container, *, build: Callable[[], None]
) -> tuple[str, ...]:
    """Return the names of these programs, each once; none if the engine cannot say."""
    running = _entered(engine.ask("top", agent.id, "-o", COLUMNS).out)
    if not running:
        return ()
    build()
    dry_run = (*planner.compose_argv(project)[1:], "--dry-run", *CREATE)
    done = engine.ask(*dry_run, cwd=project.root)
    recreates = RECREATES.format(re.escape(project.name))
    return running if re.search(recreates, done.out + done.err, re.MULTILINE) else ()


def _entered(table: str) -> tuple[str, ...]:
    """Return the programs that were started from outside: no process of the container is their parent."""
    lines = (line.split(maxsplit=2) for line in table.splitlines()[1:])
    rows = [line for line in lines if len(line) == len(COLUMNS.split(","))]
    inside = {pid for pid, _, _ in rows}
    return tuple(
        dict.fromkeys(printable(name) for _, parent, name in rows if parent not in inside and name not in OURS)
    )
