"""What a driver observes: the containers of a stack, and foreign ones beside them."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct


class Container(Struct, frozen=True, kw_only=True):
    """One container of a stack. `health` is empty without a health check.

    `unchecked`: the engine calls it unhealthy because it was paused, although no check failed. The next check comes
    within `check_seconds`. `by_editor`: an editor started it, with a start command of its own around ours.
    """

    id: str
    service: str
    image: str
    state: str
    health: str = ""
    unchecked: bool = False
    check_seconds: float = 0
    started: datetime | None = None
    exit_code: int = 0
    error: str = ""
    last_check: str = ""
    networks: tuple[str, ...] = ()
    limits: Mapping[str, str] = {}
    out_of_memory: bool = False
    restarts: int = 0
    by_editor: bool = False

    @property
    def ready(self) -> bool:
        """Whether it runs and is healthy."""
        return self.state == "running" and self.health in {"", "healthy"}

    @property
    def condition(self) -> str:
        """Its state as text.

        >>> Container(id="1", service="proxy", image="x", state="running", health="unhealthy").condition
        'unhealthy'
        >>> Container(id="1", service="proxy", image="x", state="exited", exit_code=3).condition
        'exited with code 3'
        """
        if self.state == "exited":
            return f"exited with code {self.exit_code}{', out of memory' if self.out_of_memory else ''}"
        if self.state != "running":
            return self.state
        return "not checked since it was paused" if self.unchecked else self.health or self.state


class StackFound(Struct, frozen=True, kw_only=True):
    """The containers and volumes of one stack on the engine. Without containers, only its volumes are left.

    `directory` is that of its stack file, as the containers name it, or empty.
    """

    name: str
    containers: tuple[Container, ...] = ()
    volumes: tuple[str, ...] = ()
    directory: str = ""


class Usage(Struct, frozen=True, kw_only=True):
    """The resources that all stacks use: bytes of memory by container, and bytes on disk by volume; None if unknown."""

    memory: Mapping[str, int] | None
    disk: Mapping[str, int] | None


class Sharer(Struct, frozen=True, kw_only=True):
    """A foreign container in a network namespace of the stack, and the command that stops it."""

    name: str
    mending: str


class Intruders(Struct, frozen=True, kw_only=True):
    """Networks and containers that weaken the sandbox from outside it, each as the command that removes it.

    `connected`: additional networks of the firewall. `strangers`: foreign containers in the internal network.
    """

    connected: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    sharing: tuple[Sharer, ...] = ()
