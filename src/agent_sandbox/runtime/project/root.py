"""Find the project's root directory. Most commands need it first, so it must be fast."""

import os
from pathlib import Path

from agent_sandbox.render.paths import STACK

STACK_FILE = Path(STACK)
POLICY_FILE = Path(".devcontainer", "policy.yaml")


def find_root(path: Path | None, *, cwd: Path) -> Path | None:
    """Return the project's directory: `path`, or the one that contains `cwd`.

    A stack inside another project counts only if the user trusts it. Otherwise the outermost one is used, because the
    agent could have created the inner one.
    """
    if path is not None:
        return path.absolute()
    found = [folder for folder in (cwd, *cwd.parents) if os.path.exists(folder / STACK_FILE)]
    if len(found) < 2:
        return found[0] if found else None

    from agent_sandbox.runtime.project.trust_store import open_store  # noqa: PLC0415 - few projects lie in one another

    store = open_store(os.environ)
    return next((folder for folder in found if store.load(folder)), found[-1])
