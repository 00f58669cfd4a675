"""Types of the values that commands read from a stack file.

Such commands import this, and not the model from which the file is rendered.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePosixPath

from msgspec import Struct


class Ide(StrEnum):
    """Which editor opens the project in the container."""

    VSCODE = "vscode"
    JETBRAINS = "jetbrains"
    NONE = "none"


class Access(StrEnum):
    """What the agent may do with a protected path."""

    READ = "read"
    PINNED = "pinned"


class MountKind(StrEnum):
    """The source of a mount's content."""

    BIND = "bind"
    VOLUME = "volume"
    TMPFS = "tmpfs"


class Owner(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The uid and gid of `dev`: those of the workspace's owner."""

    uid: int = 1000
    gid: int = 1000


class ServiceBeside(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service beside the sandbox; without a `user`, it is the image's."""

    image: str
    user: str = ""


class Facts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the containers of a stack are given, as far as commands need it."""

    # Of all services, in their order, each once.
    images: tuple[str, ...] = ()
    # The paths that the agent can only read; those outside the workspace are absolute. Of masked ones, only `.env`.
    protected: frozenset[str] = frozenset()
    # The files of the project in whose place the agent sees an empty one.
    masked: frozenset[str] = frozenset()
    # Whether the workspace is a clone in a volume: nothing that it contains is on the host machine.
    in_volume: bool = False
    # The paths of the host machine that the proxy reads: the directories of policies.
    layers: frozenset[str] = frozenset()
    # The agent's variables, and its limits by name, as text.
    environment: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}
    # The sizes of the volumes that are bounded, by name.
    volumes: Mapping[str, str] = {}
    # Of the internal networks.
    subnets: tuple[str, ...] = ()
    beside: Mapping[str, ServiceBeside] = {}


def is_inside(path: str) -> bool:
    """Return whether a path is inside the project.

    >>> is_inside("a/b"), is_inside("../a"), is_inside("/a"), is_inside("")
    (True, False, False, False)
    """
    place = PurePosixPath(path)
    return bool(place.parts) and not place.is_absolute() and ".." not in place.parts
