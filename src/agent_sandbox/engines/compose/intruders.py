"""Find what is connected to a stack from outside: networks, their members, and containers in its namespaces.

A container that joined a namespace (`docker run --network container:ID`) is not a member of any network, so a list of
the network's members does not show it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.container import Container, Sharer
from agent_sandbox.stack.containers import FIREWALL
from agent_sandbox.stack.naming import beside_network_name, network_name

JOINED = "container:"
SHORT = 12  # characters of an ID, as in `Container`
FORMAT = "{{.Id}} {{.Name}} {{.HostConfig.NetworkMode}}"


def foreign_networks(engine: Engine, found: Iterable[Container], project: str) -> tuple[str, ...]:
    """Return the command that disconnects each additional network; the firewall owns the agent's namespace."""
    return tuple(
        f"{engine.program} network disconnect {network} {container.id}"
        for container in found
        if container.service == "firewall"
        for network in container.networks
        if network not in _own(project)
    )


def strangers(engine: Engine, found: Sequence[Container], project: str) -> tuple[str, ...]:
    """Return the command that disconnects each foreign container from the internal networks."""
    own = tuple(container.id for container in found)
    in_use = {name for container in found if container.state == "running" for name in container.networks}
    return tuple(
        f"{engine.program} network disconnect {network} {name}"
        for network in _own(project)
        if network in in_use
        for identity, name in sorted(_members(engine, network).items())
        if not identity.startswith(own)
    )


def _own(project: str) -> tuple[str, str]:
    return network_name(project), beside_network_name(project)


def _members(engine: Engine, network: str) -> dict[str, str]:
    """Return the names of a network's members by ID."""
    done = engine.ask("network", "inspect", network, "--format", "{{json .Containers}}")
    members: Mapping[str, Mapping[str, str]] = read_json(done.out) or {} if done.code == 0 else {}
    return {identity: member.get("Name") or identity for identity, member in members.items()}


def sharers(engine: Engine, found: Sequence[Container]) -> tuple[Sharer, ...]:
    """Return the foreign running containers that joined a namespace of the stack, by name.

    Chains of containers that join each other are followed.
    """
    own = tuple(container.id for container in found if container.state == "running")
    expected = _expected(found)
    names, joined = _joined(engine) if own else ({}, {})
    foreign = sorted(
        names[identity]
        for identity, to in joined.items()
        if (identity[:SHORT], to[:SHORT]) not in expected
        and any(one.startswith(own) for one in _chain(identity, joined))
    )
    return tuple(Sharer(name=name, mending=f"{engine.program} stop {name}") for name in foreign)


def _expected(found: Sequence[Container]) -> frozenset[tuple[str, str]]:
    """Return the IDs of the agent and the services beside it, each with that of its own firewall."""
    named = {container.service: container.id for container in found}
    firewalls = {**{FIREWALL + name: name for name in named}, "firewall": "agent"}
    return frozenset((named[name], named[wall]) for wall, name in firewalls.items() if wall in named and name in named)


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
