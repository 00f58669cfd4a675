"""Protect files again in a running agent container, without ending a process in it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from agent_sandbox.bounded_json import read_json
from agent_sandbox.runtime.compose.containers import SERVICE_LABEL
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.driver.container import Container
from agent_sandbox.stack.services.agent import REPROTECT, WORKSPACE

# To enter the agent's mount namespace (the first three) and to replace a file of whichever owner.
CAPABILITIES = ("SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "DAC_OVERRIDE", "DAC_READ_SEARCH", "CHOWN", "FOWNER")
ISOLATED = ("--rm", "--pull=never", "--network=none", "--read-only", "--user=0:0", "--cap-drop=ALL")
# AppArmor's and SELinux's rules for containers forbid every mount.
OPTIONS = ("no-new-privileges", "apparmor=unconfined", "label=disable")
CGROUPS = "type=bind,source=/sys/fs/cgroup,target=/cgroup"


def reprotect(engine: Engine, agent: Container, digests: Mapping[str, str]) -> str:
    """Mount these files read-only again if they have the given SHA-256; return why that failed, or an empty string.

    A container with the agent's image does it, as root in the agent's namespaces, and ends. Each file is replaced by a
    new one with the same content, because the agent may still have the old one open. That would end the mounts of other
    agent containers that share the file, so they get new ones too.
    """
    found = _agents(engine)
    processes, files = _shared(found, agent.id, digests)
    # The processes of other containers are visible only among all of the Docker host's.
    seen = "host" if processes else f"container:{agent.id}"
    said = {"processes": processes or {agent.id: 1}, "files": files}
    isolated = (*ISOLATED, *(f"--security-opt={one}" for one in OPTIONS), *(f"--cap-add={one}" for one in CAPABILITIES))
    shared = ("--userns=host", f"--pid={seen}", "--cgroupns=host", "--mount", CGROUPS)
    # By its id: the name may belong to another version by now.
    image = next((one["Image"] for one in found if one["Id"].startswith(agent.id)), agent.image)
    program = ("--entrypoint", REPROTECT, image)
    done = engine.ask("run", *isolated, *shared, *program, json.dumps(said))
    reasons = (f"{engine.program} run ended with {done.code}", *done.err.splitlines())
    return "" if done.code == 0 else reasons[-1]


def _agents(engine: Engine) -> Sequence[Mapping[str, Any]]:
    """Return what the engine says of all running agent containers."""
    running = engine.ask("ps", "--quiet", "--filter", f"label={SERVICE_LABEL}=agent").out.split()
    # One that ended meanwhile is left out.
    said = engine.ask("inspect", "--type", "container", *running).out if running else ""
    return tuple(read_json(said)) if said.strip() else ()


def _shared(
    found: Sequence[Mapping[str, Any]], own: str, digests: Mapping[str, str]
) -> tuple[dict[str, int], list[tuple[str, dict[str, str]]]]:
    """Return the processes by container if several containers have one of the files, and for each file its paths.

    The first path of a file is our own container's.
    """
    full = next((one["Id"] for one in found if one["Id"].startswith(own)), own)
    mounts = {one["Id"]: {mount["Destination"]: mount["Source"] for mount in one["Mounts"]} for one in found}
    files = []
    for path, digest in digests.items():
        source = mounts.get(full, {}).get(str(PurePosixPath(WORKSPACE) / path))
        others = {id_: place for id_, of in mounts.items() for place, from_ in of.items() if from_ == source}
        files.append((digest, {own: path, **{id_: place for id_, place in others.items() if id_ != full}}))
    sharing = {id_ for _, paths in files for id_ in paths if id_ != own}
    processes = {one["Id"]: one["State"]["Pid"] for one in found if one["Id"] in sharing}
    return ({own: _process(found, full), **processes} if processes else {}), files


def _process(found: Sequence[Mapping[str, Any]], full: str) -> int:
    return next(int(one["State"]["Pid"]) for one in found if one["Id"] == full)
