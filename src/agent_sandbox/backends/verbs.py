"""What can be asked of a backend, each verb with exactly what it needs."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agent_sandbox.images import Image


class Freshness(StrEnum):
    """Which images a build makes."""

    OUTDATED = "outdated"  # those that are missing, or were built from other files
    ALL = "all"


class Cache(StrEnum):
    """Whether earlier builds may be taken up."""

    USE = "use"
    IGNORE = "ignore"


class Terminal(StrEnum):
    """Whether the command has a person in front of it."""

    ATTACHED = "attached"
    NONE = "none"


class Follow(StrEnum):
    """Whether to wait for more."""

    WAIT = "wait"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Build images. An empty `base_image` is the one that the Dockerfile names."""

    images: tuple[Image, ...]
    freshness: Freshness = Freshness.OUTDATED
    cache: Cache = Cache.USE
    base_image: str = ""
    extra_ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """Build what is missing and start everything, until it is healthy; the containers of `anew` are not kept."""

    build: Build
    anew: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """Stop everything; state and history stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroy:
    """Remove everything that the project has on the engine, state and history too, and these images of ours."""

    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Restart one service, and wait until it does its work again."""

    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """Run a command in the agent's container, as `dev`."""

    argv: tuple[str, ...]
    terminal: Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Show what services print: all of them where none is named."""

    services: tuple[str, ...] = ()
    follow: Follow = Follow.STOP
    tail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskProxy:
    """Ask the running proxy over its control socket: `status`, `reload`, `denials`."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSecrets:
    """Have the running proxy `set`, `list` or `remove` secrets. A value goes to its stdin, and stands in no plan."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTraffic:
    """Have the running proxy print its traffic log; when it is followed, until its stdin ends."""

    argv: tuple[str, ...] = ()


type Verb = Build | Up | Down | Destroy | Restart | Exec | Logs | AskProxy | AskSecrets | ReadTraffic
