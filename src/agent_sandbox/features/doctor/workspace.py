"""Check the protected paths of the workspace."""

import os
from collections.abc import Iterator

from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.features.protect.gaps import Gaps, look_over, mounted_outside
from agent_sandbox.features.protect.listing import ignores_case
from agent_sandbox.features.protect.mount_checks import (
    CONNECTED,
    LOOK,
    REPLACED,
    SHARING,
    STRANGER,
    listed,
    look_inside,
)
from agent_sandbox.features.protect.protected import SEARCH, UNSEARCHED
from agent_sandbox.features.stack.init.facts import homes
from agent_sandbox.host.git.worktree import NoGit, Outside, repository_outside
from agent_sandbox.project.clone_record import path_option
from agent_sandbox.project.installed import read_facts


def mounts(machine: Machine) -> Iterator[CheckResult]:
    """Check that all protected mounts and the agent's network are still in place."""
    driver, name = machine.driver, machine.project.name
    found = driver.observe(name)
    inside = look_inside(driver, found, machine.project.root)
    for path in inside.lost:
        yield fail("mounts", f"{path}: {REPLACED}", LOOK)
    if inside.cut_off:
        option = path_option(machine.project.root, os.environ, cwd=machine.cwd)
        yield fail("mounts", inside.cut_off, f"agent-sandbox up{option}")
    intruders = driver.intruders(found, name)
    yield from (fail("mounts", CONNECTED, mending) for mending in intruders.connected)
    yield from (fail("mounts", STRANGER, mending) for mending in intruders.strangers)
    yield from (fail("mounts", SHARING, one.mending) for one in intruders.sharing)


def names(machine: Machine) -> Iterator[CheckResult]:
    """Check that all paths to protect are read-only, and that the file system is case-sensitive."""
    project = machine.project
    gaps = look_over(project.root)
    for one in gaps.unprotected:
        hint = f"check it, then run {project.init}, which protects it, and agent-sandbox up"
        yield warn("workspace", f"{one.path} ({one.why}): {one.because}", hint)
    if gaps.unsearched:
        yield warn("workspace", f"{listed(gaps.unsearched)}: {UNSEARCHED}", SEARCH)
    if ignores_case(project.root, ".devcontainer"):
        what = "this disk takes `.GIT` for `.git`: by another case the agent may reach what is read-only by its name"
        yield warn("workspace", what, "keep the project on a disk that tells them apart; see docs/threat-model.md")
    elif gaps == Gaps():
        yield ok("workspace", "what this machine acts on is read-only inside")


def git(machine: Machine) -> Iterator[CheckResult]:
    """Check that git works inside where the project does not contain its repository."""
    project = machine.project
    match repository_outside(project.root, homes(os.environ)):
        case NoGit() as found:
            yield warn("git", f"does not work inside: {found.why}", found.hint)
        case Outside() as found if mounted_outside(read_facts(project.root).protected) != found:
            what = f"does not work inside yet: {found.common} is not mounted"
            yield warn("git", what, f"{project.init} mounts it, then agent-sandbox up")
        case Outside() as found:
            yield ok("git", f"this worktree uses {found.common} inside")
