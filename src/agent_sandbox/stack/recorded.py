"""Types of the values that commands read from a stack file.

Such commands import this, and not the model from which the file is rendered.
"""

from enum import StrEnum

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


class Owner(Struct, frozen=True, kw_only=True):
    """The uid and gid of `dev`: those of the workspace's owner."""

    uid: int = 1000
    gid: int = 1000
