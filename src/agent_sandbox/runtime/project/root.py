"""Which directory is the project: a question that most commands begin with, and that has to be answered quickly."""

import os
from pathlib import Path

COMPOSE_FILE = Path(".devcontainer", "docker-compose.yml")
POLICY_FILE = Path(".devcontainer", "policy.yaml")


def find_root(path: Path | None, *, cwd: Path) -> Path | None:
    """Return the project's directory: `path`, or the one that `cwd` lies in.

    A stack inside a project counts where the user has looked at it. Otherwise the outermost one is meant: what lies
    further in could be the agent's work.
    """
    if path is not None:
        return path.absolute()
    found = [folder for folder in (cwd, *cwd.parents) if os.path.exists(folder / COMPOSE_FILE)]
    if len(found) < 2:
        return found[0] if found else None

    from agent_sandbox.runtime.project.trust_store import open_store  # noqa: PLC0415 - few projects lie in one another

    store = open_store(os.environ)
    return next((folder for folder in found if store.load(folder)), found[-1])
