"""The services beside the sandbox: each in its own network namespace, which a firewall locks first.

The services are not trusted. They share only the network `beside` with the sandbox.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from agent_sandbox.stack.containers import FIREWALL
from agent_sandbox.stack.engine import ISOLATED
from agent_sandbox.stack.limits import Limits
from agent_sandbox.stack.model import (
    Attachment,
    Condition,
    Dependency,
    Healthcheck,
    Mount,
    Network,
    Service,
    Stack,
    Volume,
)
from agent_sandbox.stack.naming import BESIDE, BesideAddresses, beside_addresses, beside_network_name
from agent_sandbox.stack.recorded import MountKind
from agent_sandbox.stack.services.firewall import MIB, READY
from agent_sandbox.stack.workspace import Beside, Workspace

# What a network namespace may connect to, and which addresses may connect to which of its ports: `ADDRESS:PORT ...`.
OPEN = "AGENT_SANDBOX_BESIDE"
CLIENTS = "AGENT_SANDBOX_CLIENTS"
WHY = "the data of {}; no other container mounts it"


def with_beside(stack: Stack, workspace: Workspace) -> Stack:
    """Return the stack with the services of the project, whose ports its firewall opens to the agent."""
    services = workspace.beside
    where = beside_addresses(workspace.path, (one.name for one in services))
    network = Network(
        key=BESIDE, name=beside_network_name(stack.name), internal=True, subnet=where.subnet, options=ISOLATED
    )
    return replace(
        stack,
        services=(*_reaching(stack, services, where), *_services(stack.service("firewall").image, services, where)),
        networks=(*stack.networks, network),
        volumes=(*stack.volumes, *_volumes(services, stack.name)),
    )


def _reaching(stack: Stack, services: Sequence[Beside], where: BesideAddresses) -> tuple[Service, ...]:
    """Return the sandbox's own services, with access to the ports of the others, if there are any."""
    openings = _openings(services, where)
    if not openings:
        return stack.services
    proxy, firewall, agent = stack.services
    return (
        proxy,
        replace(
            firewall,
            networks=(*firewall.networks, Attachment(network=BESIDE, address=where.agent)),
            environment={**firewall.environment, **openings},
            extra_hosts={one.name: where.services[one.name] for one in services if one.ports},
        ),
        # Its checks expect these ports to be open, and no others.
        replace(agent, environment={**agent.environment, **openings}),
    )


def _openings(services: Sequence[Beside], where: BesideAddresses) -> dict[str, str]:
    """Return the variable with the ports of these services, nothing without any."""
    ports = " ".join(f"{where.services[one.name]}:{port}" for one in services for port in one.ports)
    return {OPEN: ports} if ports else {}


def _services(image: str, services: Sequence[Beside], where: BesideAddresses) -> Iterator[Service]:
    """Yield each service with its firewall, which runs `image`."""
    for one in services:
        linked = [other for other in services if other.name in one.links]
        clients = [where.agent, *(where.services[other.name] for other in services if one.name in other.links)]
        yield Service(
            name=FIREWALL + one.name,
            image=image,
            user="0:0",
            hostname=one.name,
            entrypoint=("/usr/local/lib/agent-sandbox/firewall-beside",),
            environment={
                **_openings(linked, where),
                CLIENTS: " ".join(f"{client}:{port}" for port in one.ports for client in clients),
            },
            mounts=(
                Mount(kind=MountKind.TMPFS, target="/run", size=MIB, read_only=False),
                Mount(kind=MountKind.TMPFS, target="/tmp", size=MIB, read_only=False),  # noqa: S108 - a container's
            ),
            networks=(Attachment(network=BESIDE, address=where.services[one.name]),),
            extra_hosts={other.name: where.services[other.name] for other in linked},
            # As for the sandbox's own firewall.
            capabilities=("NET_ADMIN", "SETGID", "SETUID"),
            read_only=False,
            init=True,
            restart="no",
            stop_grace_seconds=1,
            limits=Limits(memory=64 * MIB, cpus=1, pids=64, files=1024),
            healthcheck=Healthcheck(
                test=("test", "-e", READY), interval=30, timeout=5, retries=1, start_period=30, start_interval=0.2
            ),
        )
        yield _service(one, {other.name: other for other in linked})


def _service(one: Beside, linked: dict[str, Beside]) -> Service:
    waits = {name: Condition.HEALTHY if other.healthcheck else Condition.STARTED for name, other in linked.items()}
    return Service(
        name=one.name,
        image=one.image,
        user=one.user,
        entrypoint=one.entrypoint,
        command=one.command,
        environment=one.environment,
        mounts=tuple(
            Mount(kind=MountKind.VOLUME, source=volume_key(one.name, name), target=target, read_only=False)
            for name, target in one.volumes
        ),
        shares_network_of=FIREWALL + one.name,
        read_only=False,
        # The image decides what is process 1: some programs must be.
        init=False,
        restart="no",
        stop_grace_seconds=10,
        limits=one.limits,
        shared_memory=one.shared_memory,
        depends_on=(
            Dependency(service=FIREWALL + one.name, condition=Condition.HEALTHY, restart=True),
            *(Dependency(service=name, condition=condition, restart=False) for name, condition in waits.items()),
        ),
        healthcheck=one.healthcheck,
    )


def volume_key(service: str, name: str) -> str:
    """Return the key of a service's volume.

    >>> volume_key("db", "data")
    'beside.db.data'
    """
    return f"{BESIDE}.{service}.{name}"


def _volumes(services: Sequence[Beside], stack: str) -> Iterator[Volume]:
    for one in services:
        for key in dict.fromkeys(volume_key(one.name, name) for name, _ in one.volumes):
            yield Volume(key=key, name=f"{stack}_{key}", why=WHY.format(one.name))
