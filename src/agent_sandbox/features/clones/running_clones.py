"""Find the clones of a project that run: commands for the project leave them running."""

import os
from contextlib import suppress
from pathlib import Path

from agent_sandbox.features.stack.execute import is_running
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import Clone, clones_of
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project


def running_clones(root: Path) -> tuple[tuple[Clone, Project], ...]:
    """Return the clones of a project whose proxies run, with their stacks."""
    found: list[tuple[Clone, Project]] = []
    for clone in clones_of(root, os.environ):
        with suppress(UserError):  # one that was never filled
            found.append((clone, open_project(clone.root, cwd=clone.root)))
    if not found:
        return ()
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most projects have no clones

    with ThreadPoolExecutor() as pool:
        run = pool.map(lambda one: is_running(one[1], "proxy"), found)
        return tuple(one for one, runs in zip(found, run, strict=True) if runs)


def running_clones_or_none(root: Path) -> tuple[Clone, ...]:
    """Return the running clones of a project; none if a record is damaged, which other commands report."""
    with suppress(UserError):
        return tuple(clone for clone, _ in running_clones(root))
    return ()
