"""Keep the logins of a stack current for as long as `run` or `shell` is attached: `python -P -m ... ROOT PID`.

It watches the credential files on the host machine: a new token goes to the proxy at once, and the client refreshes one
that is about to expire. It ends with the process PID, which became the command in the container.
"""

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.secrets.login_sync import agent_of, give_login, host_of, login_of, logins
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.host.process import leave_running
from agent_sandbox.runtime.project.installed import open_project
from agent_sandbox.runtime.sources.login_host import RENEW_SECONDS, login_file
from agent_sandbox.runtime.sources.recipes import Recipe

LOOK_SECONDS = 2.0
# Between two attempts: a client that cannot refresh must not be started again and again.
AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class Watched:
    """A login, what its file looked like when it was last passed on, and when it is due again anyway."""

    recipe: Recipe
    path: Path
    seen: object = None
    due: float = 0.0

    def look(self, project: Project, now: float) -> None:
        """Pass the login on if its file has changed or its token is about to expire."""
        identity = _identity(self.path)
        if identity == self.seen and now < self.due:
            return
        self.seen, self.due = identity, now + AGAIN_SECONDS
        try:
            found = give_login(project, self.recipe)
        except UserError:
            return
        self.seen = _identity(self.path)
        soon = now + AGAIN_SECONDS
        self.due = float("inf") if found.expires is None else max(found.expires - RENEW_SECONDS + 1, soon)


def keep_logins(project: Project) -> None:
    """Start a keeper for the project, if it has logins; it ends with this process, even after an exec."""
    if logins(project):
        module = "agent_sandbox.cli.steps.secrets.login_keeper"
        leave_running((sys.executable, "-P", "-m", module, str(project.root), str(os.getpid())))


def watched(project: Project) -> list[Watched]:
    """Return the logins of a project. They were passed on when it started."""
    found = []
    for recipe in logins(project):
        path = login_file(login_of(agent_of(recipe.source)), host_of(project))
        found.append(Watched(recipe=recipe, path=path))
    return found


def keep(project: Project, all_: Iterable[Watched], parent: int) -> None:
    """Look at the logins until the parent process ends."""
    while os.getppid() == parent:
        for one in all_:
            one.look(project, time.time())
        time.sleep(LOOK_SECONDS)


def _identity(path: Path) -> object:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def main(root: str, parent: str) -> None:
    """Keep the logins of the project at `root`."""
    project = open_project(Path(root), cwd=Path(root))
    keep(project, watched(project), int(parent))


if __name__ == "__main__":
    main(*sys.argv[1:])
