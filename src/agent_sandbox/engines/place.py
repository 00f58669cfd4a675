"""Where a command runs: in a role of a stack, in a container that was observed, or beside the stack."""

from msgspec import Struct

from agent_sandbox.engines.container import Container
from agent_sandbox.project.project import Project


class Role(Struct, frozen=True, kw_only=True):
    """A part of a stack: `agent`, `proxy`, `firewall`, or a service beside the sandbox.

    With `runs=False`, a temporary container of it, which gets the arguments of its program.
    """

    project: Project
    service: str
    runs: bool = True


class Store(Struct, frozen=True, kw_only=True):
    """A volume, and where a helper sees it."""

    volume: str
    at: str
    writes: bool = False


class Helper(Struct, frozen=True, kw_only=True):
    """A temporary container of an image: it reaches nothing, and changes nothing but the stores that it writes.

    It runs whether the stack does or not. `home` is a directory in memory, `memory` the most that it uses.
    """

    project: Project
    image: str
    stores: tuple[Store, ...] = ()
    home: str = ""
    memory: str = "1g"
    directory: str = ""


type Place = Role | Container | Helper
