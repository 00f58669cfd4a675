"""The agent container: no capabilities, the firewall's network namespace, protected paths read-only."""

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from agent_sandbox.agents.home import HOME
from agent_sandbox.agents.together import Agents
from agent_sandbox.stack.containers import CLONE, HEALTHY, NOTHING, PROGRAMS, PROTECTED, WORKSPACE
from agent_sandbox.stack.environment import (
    CA_DIRECTORY,
    TRUST_DIRECTORY,
    cache_environment,
    java_environment,
    proxy_environment,
    trust_environment,
)
from agent_sandbox.stack.model import Condition, Dependency, Healthcheck, Mount, Service
from agent_sandbox.stack.naming import Addresses
from agent_sandbox.stack.recorded import Access, MountKind
from agent_sandbox.stack.workspace import Workspace

if TYPE_CHECKING:
    from agent_sandbox.agents.manifest import AgentManifest

STATE = "state-"  # with an agent's name, the key of the volume of its first state directory
LOCAL = "local-"  # with an agent's name, the key of its volume of ~/.local
# Why the agent sees nothing there; what it writes to a masked directory is kept in memory.
MASKED = "hidden by `mask` in sandbox.yaml"
MASK_SIZE = 64 << 20
READY = "/tmp/agent-sandbox.ready"  # noqa: S108 - a container's
# The variable with the MCP servers of each agent, in its own form, and what starts their commands.
MCP, MCP_START = "AGENT_SANDBOX_MCP", f"{PROGRAMS}/mcp-server"


def agent_service(image: str, where: Addresses, agents: Agents, workspace: Workspace) -> Service:
    """Return the service that the user and the editor work in."""
    return Service(
        name="agent",
        image=image,
        user=f"{workspace.owner.uid}:{workspace.owner.gid}",
        entrypoint=(f"{PROGRAMS}/entrypoint",),
        command=("sleep", "infinity"),
        working_directory=WORKSPACE,
        environment={
            **_mirrors(workspace),
            **workspace.environment,
            **_own_environment(agents, where.proxy, [one.name for one in workspace.beside]),
            **_identity(workspace),
            **_mcp(agents, workspace),
            # One per line, because a path may contain spaces.
            PROTECTED: "\n".join(
                (
                    *(f"{one.access} {one.path}" for one in workspace.protected),
                    # A mask that is lost shows what it hid, so it is checked as well, whatever it is mounted with.
                    *(f"{Access.PINNED} {mask.path}" for mask in workspace.masks),
                )
            ),
        },
        labels=_editor_labels(workspace),
        mounts=(*_workspace(workspace), *_certificates(), *_kept(agents), *_brought(workspace), *_own(workspace)),
        shares_network_of="firewall",
        read_only=False,
        init=True,
        restart="no",
        stop_grace_seconds=5,
        limits=workspace.limits,
        depends_on=(Dependency(service="firewall", condition=Condition.HEALTHY, restart=True),),
        healthcheck=Healthcheck(
            test=(HEALTHY,),
            interval=30,
            timeout=5,
            retries=1,
            start_period=60,
            start_interval=0.2,
        ),
    )


def _own_environment(agents: Agents, proxy: str, beside: Sequence[str] = ()) -> dict[str, str]:
    return {
        **proxy_environment(proxy, beside),
        **trust_environment(),
        **java_environment(proxy, beside),
        **cache_environment(HOME),
        **agents.env,
    }


def reserved_variables(agents: Agents) -> frozenset[str]:
    """Return the variables that the sandbox sets, which a project cannot, in lower case."""
    return frozenset(name.lower() for name in _own_environment(agents, ""))


def _mirrors(workspace: Workspace) -> dict[str, str]:
    own = {name.lower() for name in workspace.environment}
    return {name: url for name, url in workspace.mirrors.items() if name.lower() not in own}


def _identity(workspace: Workspace) -> dict[str, str]:
    who = workspace.identity
    found = {"AGENT_SANDBOX_GIT_NAME": who.name, "AGENT_SANDBOX_GIT_EMAIL": who.email}
    return {name: value for name, value in found.items() if value}


def _mcp(agents: Agents, workspace: Workspace) -> dict[str, str]:
    places = [one.mcp for one in agents.manifests if one.mcp]
    if not (places and workspace.mcp):
        return {}
    said = [
        {"file": place.file, "key": place.key, "servers": place.entries(workspace.mcp, starter=(MCP_START,))}
        for place in places
    ]
    return {MCP: json.dumps(said, ensure_ascii=False, separators=(",", ":"))}


def _editor_labels(workspace: Workspace) -> dict[str, str]:
    """Return the labels by which `devcontainer exec` and editors find the container of a directory.

    Not `devcontainer.metadata`: with it, they would ignore most of devcontainer.json.
    """
    config = PurePosixPath(workspace.path) / ".devcontainer" / "devcontainer.json"
    return {"devcontainer.local_folder": workspace.path, "devcontainer.config_file": str(config)}


def _workspace(workspace: Workspace) -> Iterator[Mount]:
    if workspace.in_volume:
        yield Mount(kind=MountKind.VOLUME, source=CLONE, target=WORKSPACE, read_only=False)
    else:
        yield Mount(kind=MountKind.BIND, source=".", target=WORKSPACE, read_only=False)
    for protected in workspace.protected:
        yield Mount(
            kind=MountKind.BIND,
            source=protected.path,
            target=str(PurePosixPath(WORKSPACE) / protected.path),
            read_only=protected.access is Access.READ,
            why=protected.why,
        )
    for mask in workspace.masks:
        target = str(PurePosixPath(WORKSPACE) / mask.path)
        if mask.directory:
            yield Mount(kind=MountKind.TMPFS, target=target, size=MASK_SIZE, read_only=False)
        else:
            yield Mount(kind=MountKind.BIND, source=NOTHING, target=target, read_only=True, why=MASKED)


def _certificates() -> Iterator[Mount]:
    yield Mount(kind=MountKind.VOLUME, source="trust", target=TRUST_DIRECTORY, read_only=True)
    yield Mount(kind=MountKind.VOLUME, source="ca-public", target=CA_DIRECTORY, read_only=True)


def state_volume(agent: str, place: str = "") -> str:
    """Return the key of an agent's state volume; another agent of the project must not read its sign-in.

    An agent's first state directory needs no `place`. In the others a `.` separates names, which no agent's name has.

    >>> state_volume("example", ".config/example")
    'state-example..config.example'
    """
    return f"{STATE}{agent}" + (f".{place.replace('/', '.')}" if place else "")


def state_volumes(manifest: "AgentManifest") -> dict[str, str]:
    """Return the state directories below the home directory, by the keys of their volumes."""
    first, *others = manifest.state
    return {state_volume(manifest.name): first, **{state_volume(manifest.name, path): path for path in others}}


def local_volume(agents: Agents) -> str:
    """Return the key of the volume of ~/.local, the first agent's; some agents keep their sign-in there too."""
    return f"{LOCAL}{agents.names[0]}"


def _kept(agents: Agents) -> Iterator[Mount]:
    for source, folder in (pair for manifest in agents.manifests for pair in state_volumes(manifest).items()):
        yield Mount(kind=MountKind.VOLUME, source=source, target=f"{HOME}/{folder}", read_only=False)
    yield Mount(kind=MountKind.VOLUME, source=local_volume(agents), target=f"{HOME}/.local", read_only=False)
    for source, folder in (("home-cache", ".cache"), ("history", ".history")):
        yield Mount(kind=MountKind.VOLUME, source=source, target=f"{HOME}/{folder}", read_only=False)


def _own(workspace: Workspace) -> Iterator[Mount]:
    for one in workspace.mounts:
        why = "named by sandbox.yaml"
        yield Mount(kind=MountKind.BIND, source=one.source, target=one.target, read_only=one.read_only, why=why)


def _brought(workspace: Workspace) -> Iterator[Mount]:
    own = f"{HOME}/.config/agent-sandbox"
    places = {
        f"{HOME}/.dotfiles": workspace.dotfiles,
        f"{own}/shell.d": workspace.shell_d,
        f"{own}/settings": workspace.settings,
    }
    for target, source in places.items():
        if source:
            yield Mount(kind=MountKind.BIND, source=source, target=target, read_only=True)
