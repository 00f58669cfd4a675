"""Keep the secrets of a stack current while `run` or `shell` is attached: `python -P -m ... ROOT PID`.

It watches the credential files on the host machine: a new token goes to the proxy at once, and the client refreshes one
that is about to expire. It also fetches values again whose source says when they expire. It ends with the process PID,
which became the command in the container, or if no secret will expire.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agent_sandbox.features.proxy.secrets import Held
from agent_sandbox.features.secrets.login_sync import agent_of, host_of, login_of
from agent_sandbox.features.secrets.secret_sources import give
from agent_sandbox.features.secrets.secret_store import secrets_of
from agent_sandbox.features.secrets.sources.all_recipes import recipes_for
from agent_sandbox.features.secrets.sources.fetch import RENEWED, split_source
from agent_sandbox.features.secrets.sources.login_host import RENEW_SECONDS, login_file
from agent_sandbox.features.secrets.sources.recipes import Recipe
from agent_sandbox.host.process import leave_running
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project

LOOK_SECONDS = 2.0
# Between two attempts: a client that cannot refresh must not be started again and again.
AGAIN_SECONDS = 60.0
# A value is fetched again this long before it expires: before `status` warns about one that is used for an hour, but
# not before AWS's programs refresh their keys, in the last ten minutes.
EARLY_SECONDS = 540.0


class Watched(Struct):
    """A secret, what its file looked like when it was last passed on, and when it is due again anyway."""

    recipe: Recipe
    # The credential file of a login.
    path: Path | None = None
    seen: object = None
    due: float = 0.0

    def look(self, project: Project, now: float) -> None:
        """Pass the secret on if its file has changed or its value is about to expire."""
        identity = _identity(self.path)
        if identity == self.seen and now < self.due:
            return
        self.seen, self.due = identity, now + AGAIN_SECONDS
        try:
            left = give(project, self.recipe, keeps=True)
        except UserError:
            return
        self.seen = _identity(self.path)
        early = EARLY_SECONDS if self.path is None else RENEW_SECONDS - 1
        self.due = float("inf") if left is None else max(now + left - early, self.due)


def keep_secrets(project: Project) -> None:
    """Start a keeper for the project, if one of its secrets needs it; it ends with this process, even after an exec."""
    if _kept(project):
        module = "agent_sandbox.features.secrets.secret_keeper"
        leave_running((sys.executable, "-P", "-m", module, str(project.root), str(os.getpid())))


def watched(project: Project) -> list[Watched]:
    """Return the secrets to keep. They were passed on when the project started."""
    found, held = [], _held(project)
    for recipe in _kept(project):
        agent = agent_of(recipe.source)
        path = login_file(login_of(agent), host_of(project)) if agent else None
        found.append(Watched(recipe=recipe, path=path, due=0.0 if agent else _due(recipe, held)))
    return [one for one in found if one.path or one.due < float("inf")]


def keep(project: Project, all_: Sequence[Watched], parent: int) -> None:
    """Look at the secrets until the parent process ends; without any, end at once."""
    while all_ and os.getppid() == parent:
        for one in all_:
            one.look(project, time.time())
        time.sleep(LOOK_SECONDS)


def _kept(project: Project) -> list[Recipe]:
    try:
        recipes = recipes_for(project.root, os.environ)
    except UserError:  # the start has reported it
        return []
    # With `--ttl`, the user chose when a value ends.
    return [one for one in recipes if agent_of(one.source) or _is_renewed(one) or one.ttl is None]


def _is_renewed(recipe: Recipe) -> bool:
    return split_source(recipe.source)[0] in RENEWED


def _held(project: Project) -> dict[str, Held]:
    try:
        return {one.name: one for one in secrets_of(project)}
    except UserError:
        return {}


def _due(recipe: Recipe, held: Mapping[str, Held]) -> float:
    """Return when to fetch a value again that the proxy has; at once if it has none and its source asks no question."""
    found = held.get(recipe.name)
    if found is None or found.problem:
        return 0.0 if _is_renewed(recipe) else float("inf")
    return found.expires.timestamp() - EARLY_SECONDS if found.expires else float("inf")


def _identity(path: Path | None) -> object:
    try:
        found = path.lstat() if path else None
    except OSError:
        return None
    return found and (found.st_ino, found.st_mtime_ns, found.st_size)


def main(root: str, parent: str) -> None:
    """Keep the secrets of the project at `root`."""
    project = open_project(Path(root), cwd=Path(root))
    keep(project, watched(project), int(parent))


if __name__ == "__main__":
    main(*sys.argv[1:])
