"""The requests to a backend, each with its parameters."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from agent_sandbox.images import Image


class Freshness(StrEnum):
    """Which images a build makes."""

    OUTDATED = "outdated"  # missing or outdated images
    ALL = "all"


class Cache(StrEnum):
    """Whether the build cache may be used."""

    USE = "use"
    IGNORE = "ignore"


class Build(Struct, frozen=True, kw_only=True):
    """Build images. An empty `base_image` means the default of the image's recipe."""

    images: tuple[Image, ...]
    freshness: Freshness = Freshness.OUTDATED
    cache: Cache = Cache.USE
    base_image: str = ""
    extra_ca: Path | None = None
    # The URLs for the images' `registries`.
    registries: Mapping[str, str] = {}


class Up(Struct, frozen=True, kw_only=True):
    """Build missing images and start all services until healthy; recreate the containers in `anew`.

    With `only`, start these services and those that they need, and remove none. `ready`: all containers were ready, so
    first find out whether anything has to be started.
    """

    build: Build
    anew: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ready: bool = False


class Down(Struct, frozen=True, kw_only=True):
    """Stop everything; keep state and history."""


class Destroy(Struct, frozen=True, kw_only=True):
    """Remove everything that the project has on the engine, including state and history, and these images."""

    images: tuple[str, ...] = ()


class Drop(Struct, frozen=True, kw_only=True):
    """Remove these images, except those that a container uses; they need no project."""

    images: tuple[str, ...]


class Pull(Struct, frozen=True, kw_only=True):
    """Pull the image that has this digest, and give it the name of `image`."""

    image: str
    digest: str


class Restart(Struct, frozen=True, kw_only=True):
    """Restart one service and wait until it is healthy."""

    service: str


class Stop(Struct, frozen=True, kw_only=True):
    """Stop one container of a service, by its ID, at once if it does not end by itself."""

    service: str
    container: str


class Resume(Struct, frozen=True, kw_only=True):
    """Unpause these containers, by their IDs."""

    containers: tuple[str, ...]


class Create(Struct, frozen=True, kw_only=True):
    """Create the containers, networks and volumes without starting anything."""


type Verb = Build | Up | Create | Down | Destroy | Pull | Restart | Resume | Stop
