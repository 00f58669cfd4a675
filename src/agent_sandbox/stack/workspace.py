"""The facts about a project and its user that a stack is built from; `init` collects them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agent_sandbox.stack.limits import DEFAULT, Limits
from agent_sandbox.stack.recorded import Access, Ide, Owner

if TYPE_CHECKING:
    from agent_sandbox.agents.mcp import McpServer
    from agent_sandbox.stack.model import Healthcheck


class Protected(Struct, frozen=True, kw_only=True):
    """A protected path of the workspace: read-only, or pinned so that it cannot be moved away.

    `init` creates what is `always` protected, as an empty directory unless it is one of its files. The host
    machine acts on what is `anywhere` in every directory, not only in the one that the row is about.
    """

    path: str
    access: Access = Access.READ
    always: bool = False
    anywhere: bool = False
    why: str


class OwnMount(Struct, frozen=True, kw_only=True):
    """A path of the host machine that the project file brings in, at `target`."""

    source: str
    target: str
    read_only: bool = True


class Mask(Struct, frozen=True, kw_only=True):
    """A path of the project in whose place the agent sees nothing: an empty directory, or an empty file."""

    path: str
    directory: bool


class Beside(Struct, frozen=True, kw_only=True):
    """A service beside the sandbox, such as a database.

    `ports` are open to the agent and to the services that link to it. `links` are the services that it may reach.
    `volumes` are names with their places in the container. An empty `user` is the image's.
    """

    name: str
    image: str
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    volumes: tuple[tuple[str, str], ...] = ()
    ports: tuple[int, ...] = ()
    links: tuple[str, ...] = ()
    healthcheck: "Healthcheck | None" = None
    limits: Limits
    shared_memory: int = 0


class Identity(Struct, frozen=True, kw_only=True):
    """Who commits, as git on the host machine knows the user; empty if it does not."""

    name: str = ""
    email: str = ""


class Workspace(Struct, frozen=True, kw_only=True):
    """One project: its path, title, protected paths, and its user's configuration."""

    path: str
    title: str
    # Whether the user chose the title; by default it is the directory's name, in each clone its own.
    is_titled: bool = False
    ide: Ide
    owner: Owner = field(default_factory=Owner)
    identity: Identity = Identity()
    limits: Limits = DEFAULT
    # Whether `.env` names the stack for the plain command of the engine: in this clone, and by default in all.
    dotenv: bool = True
    all_use_dotenv: bool = True
    # The digest of the project file, "" without one.
    project_file: str = ""
    protected: tuple[Protected, ...] = ()
    # Whether it is a clone in a volume: nothing of it is on the host machine.
    in_volume: bool = False
    # What the project file says.
    mounts: tuple[OwnMount, ...] = ()
    masks: tuple[Mask, ...] = ()
    environment: Mapping[str, str] = {}
    # The variables that lead tools to the mirrors in the user's configuration; `environment` is stronger.
    mirrors: Mapping[str, str] = {}
    # The path of its setup script, "" without one.
    setup: str = ""
    # The MCP servers of all agents.
    mcp: tuple["McpServer", ...] = ()
    # Of the proxy's way out; 0 is the engine's default.
    mtu: int = 0
    # The services beside the sandbox, in the file's order, by which they get their addresses.
    beside: tuple[Beside, ...] = ()
    dotfiles: str | None = None
    shell_d: str | None = None
    # The copies of the user's own settings of the agents, if there are any.
    settings: str | None = None
    # The directories of the other layers, by layer name, lowest first.
    layers: Mapping[str, str] = {}
