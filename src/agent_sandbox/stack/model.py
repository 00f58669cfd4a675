"""The values of a stack, independent of a backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent_sandbox.stack.limits import Limits
from agent_sandbox.stack.recorded import MountKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount: a path (relative to the project, or absolute), a volume by its key, or memory."""

    kind: MountKind
    source: str = ""
    target: str
    read_only: bool
    size: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A named volume: `key` within the stack, `name` on the engine."""

    key: str
    name: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network; an internal one reaches only its members."""

    key: str
    name: str
    internal: bool
    subnet: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A service's connection to a network, with its pinned address, if any."""

    network: str
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthcheck:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A service that must start first; with `restart`, this one restarts when that one is recreated."""

    service: str
    condition: Condition
    restart: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One container. Exactly one of `networks` and `shares_network_of` is set."""

    name: str
    image: str
    user: str
    hostname: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    networks: tuple[Attachment, ...] = ()
    shares_network_of: str = ""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The stack of one project: name, services, networks, volumes.

    Every service drops all capabilities except those it names, and has `no-new-privileges`; this cannot be changed.
    """

    name: str
    agents: tuple[str, ...]
    # The record of pinned versions, by agent.
    pins: Mapping[str, str] = field(default_factory=dict)
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
