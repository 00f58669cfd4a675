"""Find what is connected to a stack from outside: networks, their members, and containers in its namespaces.

A container that joined a namespace (`docker run --network container:ID`) is not a member of any network, so a list of
the network's members does not show it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_sandbox.bounded_json import read_json
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.driver.container import Container, Sharer
from agent_sandbox.stack.naming import network_name

JOINED = "container:"
FORMAT = "{{.Id}} {{.Name}} {{.HostConfig.NetworkMode}}"


def foreign_networks(engine: Engine, found: Iterable[Container], project: str) -> tuple[str, ...]:
    """Return the command that disconnects each additional network; the firewall owns the agent's namespace."""
    return tuple(
        f"{engine.program} network disconnect {network} {container.id}"
        for container in found
        if container.service == "firewall"
        for network in container.networks
        if network != network_name(project)
    )


def strangers(engine: Engine, found: Sequence[Container], project: str) -> tuple[str, ...]:
    """Return the command that disconnects each foreign container from the internal network."""
    network = network_name(project)
    if not any(network in container.networks and container.state == "running" for container in found):
        return ()
    done = engine.ask("network", "inspect", network, "--format", "{{json .Containers}}")
    members: Mapping[str, Mapping[str, str]] = read_json(done.out) or {} if done.code == 0 else {}
    names = {identity: member.get("Name") or member.get("name") or identity for identity, member in members.items()}
    own = tuple(container.id for container in found)
    return tuple(
        f"{engine.program} network disconnect {network} {name}"
        for identity, name in sorted(names.items())
        if not identity.startswith(own)
    )


def sharers(engine: Engine, found: Sequence[Container]) -> tuple[Sharer, ...]:
    """Return the foreign running containers that joined a namespace of the stack, by name.

    Chains of containers that join each other are followed.
    """
    own = tuple(container.id for container in found if container.state == "running")
    agents = tuple(container.id for container in found if container.service == "agent")
    names, joined = _joined(engine) if own else ({}, {})
    foreign = sorted(
        names[identity]
        for identity in joined
        if not identity.startswith(agents) and any(one.startswith(own) for one in _chain(identity, joined))
    )
    return tuple(Sharer(name=name, mending=f"{engine.program} stop {name}") for name in foreign)


def _joined(engine: Engine) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return, by ID, the name of each running container that joined another's namespace, and that container's ID."""
    running = engine.ask("ps", "--quiet", "--no-trunc").out.split()
    # A container that ended meanwhile causes an error; the others are still printed.
    said = engine.ask("inspect", "--type", "container", "--format", FORMAT, *running).out if running else ""
    rows = [line.split(" ", 2) for line in said.splitlines()]
    found = {row[0]: row for row in rows if len(row) == 3 and row[2].startswith(JOINED)}
    names = {identity: row[1].removeprefix("/") for identity, row in found.items()}
    return names, {identity: row[2].removeprefix(JOINED) for identity, row in found.items()}


def _chain(identity: str, joined: Mapping[str, str]) -> Iterator[str]:
    """Yield the container whose namespace it joined, then the one that that joined, and so on, each once."""
    seen = {identity}
    while (identity := joined.get(identity, identity)) not in seen:
        seen.add(identity)
        yield identity
