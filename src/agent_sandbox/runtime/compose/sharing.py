"""Find foreign containers in the network namespace of the agent or proxy (`docker run --network container:ID`).

They are not members of any network, so a list of the network's members does not show them.
"""

from collections.abc import Iterator, Mapping, Sequence

from agent_sandbox.runtime.compose.containers import Container
from agent_sandbox.runtime.compose.engine import ask

SHARING = (
    "another container shares a network namespace of the stack, and so the loopback interface of the agent or the proxy"
)
JOINED = "container:"
FORMAT = "{{.Id}} {{.Name}} {{.HostConfig.NetworkMode}}"


def sharers(found: Sequence[Container]) -> tuple[str, ...]:
    """Return the names of foreign running containers that joined a namespace of the stack.

    Chains of containers that join each other are followed.
    """
    own = tuple(container.id for container in found if container.state == "running")
    agents = tuple(container.id for container in found if container.service == "agent")
    names, joined = _joined() if own else ({}, {})
    return tuple(
        sorted(
            names[identity]
            for identity in joined
            if not identity.startswith(agents) and any(one.startswith(own) for one in _chain(identity, joined))
        )
    )


def mending(name: str) -> str:
    """Return the command that stops a container that shares the namespace."""
    return f"docker stop {name}"


def _joined() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return, by ID, the name of each running container that joined another's namespace, and that container's ID."""
    running = ask("ps", "--quiet", "--no-trunc").out.split()
    # A container that ended meanwhile causes an error; the others are still printed.
    said = ask("inspect", "--type", "container", "--format", FORMAT, *running).out if running else ""
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
