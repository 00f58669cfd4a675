"""Check user mapping: the uid of `dev` on the host, and the uid whose kernel limits the agent uses."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.containers import containers
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.project.project import Project

# The engine's security options for a user namespace, and their usual names.
NAMESPACES = {"name=rootless": "rootless", "name=userns": "userns-remap"}
INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH = 1024
RAISE = (
    "sudo sysctl fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=1048576;"
    " docs/limits.md explains how to make it permanent, and which other limits are shared"
)
COUNTED = {
    "": "no user namespace: the kernel counts what the agent uses together with other programs of uid {uid}",
    "userns-remap": "userns-remap: the kernel counts the agent's inotify instances for root, not for your user",
    "rootless": "rootless: the kernel counts the agent's inotify instances for the engine's user",
}


def namespace_of(info: Mapping[str, Any]) -> str:
    """Return the kind of user namespace of the engine's containers, or an empty string.

    >>> namespace_of({"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]})
    'rootless'
    """
    options = [str(option).split(",")[0] for option in info.get("SecurityOptions") or ()]
    return next((name for option, name in NAMESPACES.items() if option in options), "")


def kernel(host: EngineHost, project: Project) -> CheckResult:
    """Report which kernel limits the agent shares with this machine's users."""
    if not host.is_local:
        return ok("kernel", "the Docker engine runs on another kernel: the agent shares no limits with your programs")
    kind, uid, mine = namespace_of(host.info), project.owner.uid, os.getuid()
    if not kind and mine not in {0, uid}:
        return ok("kernel", f"the kernel counts what the agent uses for uid {uid}, not for yours ({mine})")
    instances = int(INSTANCES.read_text("ascii"))
    what = f"{COUNTED[kind].format(uid=uid)}; that user has {instances} inotify instances"
    return warn("kernel", what, RAISE) if instances < ENOUGH else ok("kernel", what)


def mapped_owner(host: EngineHost, project: Project, kind: str) -> CheckResult:
    """Check that `dev` can write to the project if the engine maps users."""
    inside = {one.service: one.id for one in containers(host.engine, project.name) if one.state == "running"}
    said = host.engine.ask("exec", inside["firewall"], "cat", "/proc/self/uid_map").out if "firewall" in inside else ""
    uid, owner = outside(said, project.owner.uid), project.root.stat().st_uid
    if uid is None:
        what = f"this Docker engine maps users ({kind}): the uid of dev on the host is known once the stack runs"
        return warn("owner", what, "agent-sandbox up, then agent-sandbox doctor")
    if uid == owner:
        return ok("owner", f"dev is uid {uid} outside ({kind}), like the project's owner")
    if "agent" in inside and host.engine.ask("exec", inside["agent"], "test", "-w", "/workspace").code == 0:
        return ok("owner", f"dev is uid {uid} outside ({kind}), and can write the project of uid {owner}")
    what = f"dev is uid {uid} outside ({kind}), and cannot write the project of uid {owner}"
    entries = f"u:{uid}:rwX,d:u:{uid}:rwX,d:u:{owner}:rwX"
    return fail("owner", what, f"setfacl -R -m {entries} {shlex.quote(str(project.root))}")


def outside(table: str, uid: int) -> int | None:
    r"""Return the host uid of a container's uid, from the container's `uid_map`.

    >>> outside("0 100000 1000\n1000 1000 1", 1000), outside("0 100000 65536", 1000), outside("", 1000)
    (1000, 101000, None)
    """
    for line in table.splitlines():
        first, start, length = map(int, line.split())
        if first <= uid < first + length:
            return start + uid - first
    return None
