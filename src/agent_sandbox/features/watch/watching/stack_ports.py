"""The ports that listen in one sandbox, which `watch` and `ui` show, and those of them that the user opens there.

The sandbox reports what listens, and may lie: the report is bounded and escaped, and opens nothing.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.engines.container import Container
from agent_sandbox.features.ports.forward import Forward, Ports, forward
from agent_sandbox.features.ports.live_ports import MOST, as_text, listeners_in, relay_in
from agent_sandbox.features.ports.reported import LONGEST, Listening, watch_reports
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

LOOK_SECONDS = 10.0  # between two looks for an agent container that has started since
MOST_KEPT = 100  # of a report
REFUSED_SECONDS = 5.0  # between two notes about refused connections: a page of the sandbox can open thousands
ARRIVALS = count(1)


class PortInside(Struct, frozen=True, kw_only=True):
    """A port that listens in the sandbox, or that the user opened. `arrival` orders the ports of all stacks."""

    port: int
    command: str = ""
    arrival: int = 0
    here: int = 0  # the port of this machine that leads to it; 0 if there is none

    @property
    def program(self) -> str:
        """The name of the program, for a line with several."""
        words = self.command.split()
        return words[0].rpartition("/")[2][:16] if words else ""


class Inside(Struct, frozen=True, kw_only=True):
    """Ports of a sandbox, the newest first: a few, and all that are open. `note` is what to tell the user now."""

    ports: tuple[PortInside, ...] = ()
    more: int = 0
    note: str = ""


class StackPorts:
    """Follows the agent container of a stack, and calls `on_change` from the thread of `follow`."""

    _agent: Container

    def __init__(self, project: Project, on_change: Callable[[Inside], None], *, seconds: float = LOOK_SECONDS) -> None:
        self._project, self._on_change, self._seconds = project, on_change, seconds
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._found: dict[int, PortInside] = {}
        self._opened: dict[int, Forward] = {}
        self._main: asyncio.Task[None] | None = None
        self._relaying: asyncio.Task[None] | None = None
        self._quiet_until = 0.0
        self._orders: asyncio.Queue[Callable[[Ports], Awaitable[str]]]

    def follow(self) -> None:
        """Report ports until `end` is called, and again after each start of the container."""
        seen: tuple[object, ...] = ()
        while not self._over.is_set():
            with suppress(UserError, OSError):  # the engine does not answer now
                for agent in driver().observe(self._project.name, "agent"):
                    if agent.state == "running" and (agent.id, agent.started) != seen:
                        seen, self._agent = (agent.id, agent.started), agent
                        with suppress(asyncio.CancelledError):
                            asyncio.run(self._follow())
            self._over.wait(self._seconds)

    def end(self) -> None:
        """Close all ports, and stop."""
        if not self._over.is_set():  # a second cancellation would leave the programs behind
            self._over.set()
            with suppress(UserError):
                self._call(self._stop)

    def open(self, wanted: Forward) -> None:
        """Open a port of this machine; a note says where it is, or what is wrong."""

        async def order(ports: Ports) -> str:
            found = await ports.open(wanted)
            self._opened[found.here] = found
            return as_text(found)

        self._call(self._order, order)

    def close(self, here: int) -> None:
        """Close a port of this machine with its connections."""

        async def order(ports: Ports) -> str:
            if not ports.close(here):
                raise UserError([Problem(where=str(here), what="is not open on this machine")])
            del self._opened[here]
            return f"closed {here}"

        self._call(self._order, order)

    def _call(self, act: Callable[..., None], *words: object) -> None:
        loop = self._loop
        with suppress(RuntimeError):  # it has just ended
            if loop:
                loop.call_soon_threadsafe(act, *words)
                return
        what = "its ports cannot be opened now, because the sandbox is not running"
        raise UserError([Problem(where=self._project.name, what=what)])

    def _stop(self) -> None:
        if self._main:
            self._main.cancel()

    async def _follow(self) -> None:
        """Follow one start of the container. A report that is invalid, or a killed program inside, ends the reports."""
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if not self._over.is_set():
                async for found in watch_reports(listeners_in(self._agent)):
                    self._take(found)
                self._take(())
                if self._relaying:
                    await self._relaying
        finally:
            self._loop = None
            if self._relaying:  # once, and not by the end of the loop: a second time would leave its program behind
                self._relaying.cancel()
                await asyncio.gather(self._relaying, return_exceptions=True)
            self._relaying = None

    def _take(self, found: tuple[Listening, ...]) -> None:
        before = self._found
        self._found = {
            one.port: PortInside(
                port=one.port,
                command=printable(one.command)[:LONGEST],
                arrival=before[one.port].arrival if one.port in before else next(ARRIVALS),
            )
            for one in found[:MOST_KEPT]
        }
        self._tell()

    def _tell(self, note: str = "") -> None:
        here = {one.inside: at for at, one in self._opened.items() if not one.service}
        known = {**{port: PortInside(port=port) for port in here}, **self._found}
        ports = sorted(known.values(), key=lambda one: one.arrival, reverse=True)
        closed = [one.port for one in ports if one.port not in here]
        shown = (replace(one, here=here.get(one.port, 0)) for one in ports if one.port not in closed[MOST:])
        more = max(0, len(closed) - MOST)
        self._on_change(Inside(ports=tuple(shown), more=more, note=printable(note)[:LONGEST]))

    def _order(self, order: Callable[[Ports], Awaitable[str]]) -> None:
        if self._relaying is None or self._relaying.done():
            self._orders = asyncio.Queue()
            self._relaying = asyncio.create_task(self._relay())
        self._orders.put_nowait(order)

    async def _relay(self) -> None:
        relay = relay_in(self._agent)
        try:
            said = await forward(
                relay,
                (),
                opened=lambda _: None,
                refused=self._refused,
                live=self._obey,
            )
            note = f"the sandbox ended the relay, so no port of it is open{f': {said}' if said else ''}"
        except UserError as error:
            note = str(error)
        finally:
            self._opened.clear()
        self._tell(note)

    def _refused(self, one: Forward) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + REFUSED_SECONDS
            self._tell(f"nothing listens on {one.where}")

    async def _obey(self, ports: Ports) -> None:
        while True:
            order = await self._orders.get()
            try:
                self._tell(await order(ports))
            except UserError as error:
                self._tell(str(error))
