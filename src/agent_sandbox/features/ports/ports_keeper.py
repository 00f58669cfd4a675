"""Relay the ports that the project file names: `python -P -m ... ROOT PID`, started by `run` and `shell`.

It prints one line for each port, closes stdout, and ends with the process PID, which became the command in the
container. Of several for one project, the first relays; the next one takes over when it ends.
"""

import asyncio
import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from agent_sandbox.cli.terminal.output import emit
from agent_sandbox.engines.place import Role
from agent_sandbox.features.ports.forward import Forward, Ports, forward
from agent_sandbox.features.ports.live_ports import as_text, relay_in
from agent_sandbox.host.user_dirs import state_directory
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.project_file import ports_of
from agent_sandbox.project.render.paths import PROJECT_FILE

LOOK_SECONDS = 2.0


async def keep(project: Project, parent: int, lock: IO[bytes]) -> None:
    """Relay the project's ports until the parent process ends."""
    if not _locked(lock):
        _tell("the project's ports are open already, by another run or shell")
        _be_quiet()
        while not _locked(lock):
            await asyncio.sleep(LOOK_SECONDS)
            if os.getppid() != parent:
                return
    relay = relay_in(Role(project=project, service="agent"))

    async def opening(ports: Ports) -> None:
        for here, inside in ports_of(project.made_of.get(PROJECT_FILE, "")):
            try:
                _tell(as_text(await ports.open(Forward(here=here, inside=inside))))
            except UserError as error:
                _tell(str(error))
        _be_quiet()

    relaying = asyncio.create_task(forward(relay, (), opened=lambda _: None, live=opening))
    while os.getppid() == parent and not relaying.done():
        await asyncio.wait((relaying,), timeout=LOOK_SECONDS)
    relaying.cancel()
    with suppress(asyncio.CancelledError, UserError):
        await relaying


def _locked(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _tell(line: str) -> None:
    with suppress(OSError, ValueError):  # nobody listens any more
        emit(line)
        sys.stdout.flush()


def _be_quiet() -> None:
    """Let the command go on that waits for our output."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def main(root: str, parent: str) -> None:
    """Keep the ports of the project at `root`."""
    project = open_project(Path(root), cwd=Path(root))
    folder = state_directory(os.environ) / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{project.name}.lock").open("ab") as lock:
        asyncio.run(keep(project, int(parent), lock))


if __name__ == "__main__":
    main(*sys.argv[1:])
