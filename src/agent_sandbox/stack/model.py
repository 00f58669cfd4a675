"""The values of a stack, independent of a backend."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from agent_sandbox.stack.limits import NO_LIMIT, Limits, size
from agent_sandbox.stack.recorded import MountKind


class Mount(Struct, frozen=True, kw_only=True):
    """One mount: a path (relative to the project, or absolute), a volume by its key, or memory."""

    kind: MountKind
    source: str = ""
    target: str
    read_only: bool
    size: int = 0
    why: str = ""


class Volume(Struct, frozen=True, kw_only=True):
    """A named volume: `key` within the stack, `name` on the engine."""

    key: str
    name: str
    why: str = ""


class Network(Struct, frozen=True, kw_only=True):
    """A network; an internal one reaches only its members."""

    key: str
    name: str
    internal: bool
    subnet: str = ""
    options: Mapping[str, str] = {}


class Attachment(Struct, frozen=True, kw_only=True):
    """A service's connection to a network, with its pinned address, if any."""

    network: str
    address: str = ""


class Healthcheck(Struct, frozen=True, kw_only=True):
    """A service's health check; times in seconds.

    During `start_period` it runs every `start_interval`, and failures do not count.
    """

    test: tuple[str, ...]
    interval: float
    timeout: float
    retries: int
    start_period: float
    start_interval: float


class Condition(StrEnum):
    """The state of another service to wait for."""

    STARTED = "service_started"
    HEALTHY = "service_healthy"


class Dependency(Struct, frozen=True, kw_only=True):
    """A service that must start first; with `restart`, this one restarts when that one is recreated."""

    service: str
    condition: Condition
    restart: bool


class Service(Struct, frozen=True, kw_only=True):
    """One container. Exactly one of `networks` and `shares_network_of` is set."""

    name: str
    image: str
    user: str
    hostname: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    working_directory: str = ""
    environment: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    networks: tuple[Attachment, ...] = ()
    shares_network_of: str = ""
    sysctls: Mapping[str, str] = {}
    extra_hosts: Mapping[str, str] = {}
    capabilities: tuple[str, ...] = ()
    read_only: bool
    init: bool
    restart: str
    stop_grace_seconds: int
    limits: Limits
    # Of /dev/shm in bytes, which counts as memory; 0 is the engine's default.
    shared_memory: int = 0
    depends_on: tuple[Dependency, ...] = ()
    healthcheck: Healthcheck | None = None


class Stack(Struct, frozen=True, kw_only=True):
    """The stack of one project: name, services, networks, volumes.

    Every service drops all capabilities except those it names, and has `no-new-privileges`; this cannot be changed.
    """

    name: str
    agents: tuple[str, ...]
    # The record of pinned versions, by agent.
    pins: Mapping[str, str] = {}
    services: tuple[Service, ...]
    networks: tuple[Network, ...]
    volumes: tuple[Volume, ...]

    def service(self, name: str) -> Service:
        """Return the service of that name."""
        return next(service for service in self.services if service.name == name)

    @property
    def images(self) -> tuple[str, ...]:
        """The images that the stack runs, each once, in the order of its services."""
        return tuple(dict.fromkeys(service.image for service in self.services))

    @property
    def sizes(self) -> dict[str, str]:
        """The sizes of the bounded volumes by name: those that the agent writes to, if it has a limit."""
        agent = self.service("agent")
        written = {mount.source for mount in agent.mounts if not mount.read_only}
        bounded = written if agent.limits.disk != NO_LIMIT else set[str]()
        return {volume.name: size(agent.limits.disk) for volume in self.volumes if volume.key in bounded}
