"""The requests to a backend, each with its parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from agent_sandbox.images import Image


class Freshness(StrEnum):
    """Which images a build makes."""

    OUTDATED = "outdated"  # missing or outdated images
    ALL = "all"


class Cache(StrEnum):
    """Whether the build cache may be used."""

    USE = "use"
    IGNORE = "ignore"


class Terminal(StrEnum):
    """Whether the command has a terminal."""

    ATTACHED = "attached"
    NONE = "none"


class Follow(StrEnum):
    """Whether to keep printing new lines."""

    WAIT = "wait"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Build images. An empty `base_image` means the default of the image's recipe."""

    images: tuple[Image, ...]
    freshness: Freshness = Freshness.OUTDATED
    cache: Cache = Cache.USE
    base_image: str = ""
    extra_ca: Path | None = None
    # The URLs for the images' `registries`.
    registries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """Build missing images and start all services until healthy; recreate the containers in `anew`.

    With `only`, start these services and those that they need, and remove none.
    """

    build: Build
    anew: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """Stop everything; keep state and history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destroy:
    """Remove everything that the project has on the engine, including state and history, and these images."""

    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Remove these images, except those that a container uses; they need no project."""

    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Pull the image that has this digest, and give it the name of `image`."""

    image: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Restart one service and wait until it is healthy."""

    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """Run a command in the agent container, as `dev`, with these variables beside the container's.

    `session` is a random name, by which signals to this process are passed on to the command. With the `container`'s
    id, no file of the stack is read.
    """

    argv: tuple[str, ...]
    terminal: Terminal
    environment: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """Run the project's setup script in the agent container, unless this content has succeeded in it."""

    script: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Show the output of these services, or of all if none is named."""

    services: tuple[str, ...] = ()
    follow: Follow = Follow.STOP
    tail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskProxy:
    """Send the running proxy a command over its control socket: `status`, `reload`, `denials`.

    `container` is the id of the proxy's container, if it is known: looking it up takes longer than the command.
    """

    argv: tuple[str, ...]
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSecrets:
    """Have the proxy's program `set`, `list` or `remove` secrets. A value goes to its stdin, never into the plan.

    If the proxy does not run, a temporary container runs the program. It sees only what is on disk.
    """

    argv: tuple[str, ...]
    proxy_runs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AskImage:
    """Run a program of an image for its output, in a container that reaches nothing and can change nothing.

    `volumes` are the volumes that it can read, by their places. `user` is `UID:GID`, by default nobody; its `home` is a
    directory in memory.
    """

    image: str
    argv: tuple[str, ...]
    volumes: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    home: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create the containers, networks and volumes without starting anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InClone:
    """Run a program of the agents' image beside the stack, with the volume of a clone and without a network.

    It runs whether the stack does or not, and can change nothing but the volume, and that only if it `writes`.
    """

    image: str
    argv: tuple[str, ...]
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySecrets:
    """Copy the secrets of another stack, by the name of its volume, from volume to volume."""

    image: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCache:
    """Replace the content of `target` with that of `source`, both volumes of ~/.cache.

    A container of the agents' image does this. If `target` does not exist, it is created as a volume of the stack.
    """

    image: str
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTraffic:
    """Have the running proxy print its audit log; when followed, until stdin ends."""

    argv: tuple[str, ...] = ()


type Verb = (
    Build
    | Up
    | Create
    | Down
    | Destroy
    | Restart
    | Exec
    | SetUp
    | Logs
    | AskProxy
    | AskSecrets
    | AskImage
    | InClone
    | CopySecrets
    | CopyCache
    | ReadTraffic
)
