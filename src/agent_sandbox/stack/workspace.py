"""What has to be known of a project and of its user before a stack can be built. Gathered by `runtime`, plain here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent_sandbox.stack.limits import DEFAULT
from agent_sandbox.stack.model import Limits


class Ide(StrEnum):
    """Which editor opens the project in the container."""

    VSCODE = "vscode"
    JETBRAINS = "jetbrains"
    NONE = "none"


class Access(StrEnum):
    """What the agent may do with a protected path."""

    READ = "read"
    PINNED = "pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A path of the workspace that the host acts on: read-only inside, or pinned so that it can't be moved away.

    What is `always` protected is made by `init`, as an empty directory where it is none of its files.
    """

    path: str
    access: Access = Access.READ
    always: bool = False
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The numbers that `dev` has inside: those of the workspace's owner."""

    uid: int = 1000
    gid: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One project: where it is, what it is called, what of it is protected, what its user brings along."""

    path: str
    title: str
    ide: Ide
    owner: Owner = Owner()
    limits: Limits = DEFAULT
    protected: tuple[Protected, ...] = ()
    dotfiles: str | None = None
    shell_d: str | None = None
    # The directories of policies beside the project's, by the names of their layers, lowest first.
    layers: Mapping[str, str] = field(default_factory=dict)
