"""Check the protected paths of the workspace."""

from collections.abc import Iterator

from agent_sandbox.runtime.compose.containers import containers
from agent_sandbox.runtime.compose.sharing import SHARING, sharers
from agent_sandbox.runtime.compose.sharing import mending as ending
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, fail, ok, warn
from agent_sandbox.runtime.protect.listing import ignores_case
from agent_sandbox.runtime.protect.mount_checks import (
    CONNECTED,
    LOOK,
    REPLACED,
    SEARCH,
    STRANGER,
    UNSEARCHED,
    Gaps,
    foreign_networks,
    listed,
    look_inside,
    look_over,
    strangers,
)


def mounts(machine: Machine) -> Iterator[CheckResult]:
    """Check that all protected mounts and the agent's network are still in place."""
    found = containers(machine.project.name)
    inside = look_inside(found)
    for path in inside.lost:
        yield fail("mounts", f"{path}: {REPLACED}", LOOK)
    if inside.cut_off:
        yield fail("mounts", inside.cut_off, "agent-sandbox up")
    for mending in foreign_networks(found, machine.project.name):
        yield fail("mounts", CONNECTED, mending)
    for mending in strangers(found, machine.project.name):
        yield fail("mounts", STRANGER, mending)
    for name in sharers(found):
        yield fail("mounts", SHARING, ending(name))


def names(machine: Machine) -> Iterator[CheckResult]:
    """Check that all paths to protect are read-only, and that the file system is case-sensitive."""
    project = machine.project
    gaps = look_over(project.root)
    for one in gaps.unprotected:
        hint = f"look at it; agent-sandbox init {project.agent} protects what it finds, then agent-sandbox up"
        yield warn("workspace", f"{one.path} ({one.why}): {one.because}", hint)
    if gaps.unsearched:
        yield warn("workspace", f"{listed(gaps.unsearched)}: {UNSEARCHED}", SEARCH)
    if ignores_case(project.root, ".devcontainer"):
        what = "this disk takes `.GIT` for `.git`: by another case the agent may reach what is read-only by its name"
        yield warn("workspace", what, "keep the project on a disk that tells them apart; see docs/threat-model.md")
    elif gaps == Gaps():
        yield ok("workspace", "what this machine acts on is read-only inside")
