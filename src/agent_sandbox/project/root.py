"""Find the project's root directory. Most commands need it first, so it must be fast."""

import os
from contextlib import suppress
from pathlib import Path

from agent_sandbox.host.files import read_bytes
from agent_sandbox.project.render.formats.header import BEGIN
from agent_sandbox.project.render.paths import SHARED, STACK, VALUES

STACK_FILE = Path(STACK)
POLICY_FILE = Path(".devcontainer", "policy.yaml")


def has_files(folder: Path) -> bool:
    """Return whether a directory has a stack, or is a clone of a project with one."""
    return os.path.exists(folder / STACK_FILE) or _has_shared(folder)


def lacks_clone_files(root: Path) -> bool:
    """Return whether what `init` wrote was checked in, and this clone has no files of its own yet."""
    return not (os.path.exists(root / STACK_FILE) and os.path.exists(root / VALUES)) and _has_shared(root)


def _has_shared(folder: Path) -> bool:
    if not os.path.exists(folder / SHARED):
        return False
    with suppress(OSError):
        return (read_bytes(folder, SHARED, limit=len(BEGIN)) or b"") == BEGIN
    return False


def find_root(path: Path | None, *, cwd: Path) -> Path | None:
    """Return the project's directory: `path`, or the one that contains `cwd`.

    A stack inside another project counts only if the user trusts it. Otherwise the outermost one is used, because the
    agent could have created the inner one.
    """
    if path is not None:
        return path.absolute()
    found = [folder for folder in (cwd, *cwd.parents) if has_files(folder)]
    if len(found) < 2:
        return found[0] if found else None

    from agent_sandbox.project.trust_store import open_store  # noqa: PLC0415 - few projects lie in one another

    store = open_store(os.environ)
    return next((folder for folder in found if store.load(folder)), found[-1])
