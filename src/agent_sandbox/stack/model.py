"""The values that a stack is made of. They know no backend; the words are those of containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class MountKind(StrEnum):
    """Where a mount's content comes from."""

    BIND = "bind"
    VOLUME = "volume"
    TMPFS = "tmpfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One thing seen inside: a path (relative to the project, or absolute), a volume by its key, or memory."""

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
    """A network: an internal one leads nowhere but to its members."""

    key: str
    name: str
    internal: bool
    subnet: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A service's place on a network, with its pinned address if it has one."""

    network: str
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthcheck:
    """How the engine sees that a service does its work; times in seconds.

    During `start_period` it is asked every `start_interval` and a failure counts for nothing.
    """

    test: tuple[str, ...]
    interval: float
    timeout: float
    retries: int
    start_period: float
    start_interval: float


class Condition(StrEnum):
    """What a service waits for."""

    STARTED = "service_started"
    HEALTHY = "service_healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A service that has to come first; with `restart`, this one starts again when that one is made anew."""

    service: str
    condition: Condition
    restart: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a service may use up: memory in bytes, parts of processors, processes and threads, open files of each."""

    memory: int
    cpus: float
    pids: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One container. Exactly one of `networks` and `shares_network_of` says what it is connected to."""

    name: str
    image: str
    user: str
    hostname: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    working_directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
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
    depends_on: tuple[Dependency, ...] = ()
    healthcheck: Healthcheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Everything of one project: its name on the engine, services, networks, volumes.

    Every service drops all capabilities but those it names and may never gain a privilege: that is no option.
    """

    name: str
    agent: str
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
