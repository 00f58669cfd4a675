"""Accept connections on this machine's loopback addresses, and relay them to ports of the sandbox."""

import asyncio
import errno
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.features.ports.relay import CHUNK, BrokenRelayError, Connection, Relay, read_pipe, widen
from agent_sandbox.host.command import Command
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.projectfile.ports import HIGHEST

ADDRESS, ADDRESS_6 = "127.0.0.1", "::1"
# How many ports above a busy one are tried.
ATTEMPTS = 20
GRACE = 2.0
LONGEST = 1_000  # of the last line


class Forward(Struct, frozen=True, kw_only=True):
    """A port of this machine, and the port of the sandbox that it leads to, or of a service beside it.

    Port 0 means any free one.
    """

    here: int
    inside: int
    service: str = ""
    # The address that was in use: why `here` is another port than the wanted one, or answers on one address only.
    taken: str = ""
    is_ours: bool = False  # whether this process uses it

    @property
    def where(self) -> str:
        """The port that it leads to, as text."""
        return f"port {self.inside} of {self.service or 'the sandbox'}"


class _Listener(Struct, kw_only=True):
    wanted: Forward
    servers: list[asyncio.Server]
    clients: set[asyncio.StreamWriter] = set()


class Ports:
    """The ports of this machine that lead into the sandbox; each can be opened and closed while the relay runs."""

    def __init__(self, relay: Relay, refused: "Opened" = lambda _: None, answered: "Opened" = lambda _: None) -> None:
        self._relay, self._refused, self._answered = relay, refused, answered
        self._listeners: dict[int, _Listener] = {}

    @property
    def inside(self) -> set[int]:
        """The ports of the sandbox that are open on this machine."""
        return {one.wanted.inside for one in self._listeners.values() if not one.wanted.service}

    async def open(self, wanted: Forward) -> Forward:
        """Listen on the wanted port, or on the next free one above it; return what is open."""
        clients: set[asyncio.StreamWriter] = set()
        is_ours = wanted.here in self._listeners
        opening = asyncio.create_task(_listen(partial(self._accept, wanted, clients), wanted))
        try:
            servers, taken = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The sandbox has ended the relay: asyncio would leave a server open that it has just begun to open.
            with suppress(UserError):
                for server in (await opening)[0]:
                    server.close()
            raise
        here = servers[0].sockets[0].getsockname()[1]
        self._listeners[here] = _Listener(wanted=wanted, servers=servers, clients=clients)
        return replace(wanted, here=here, taken=taken, is_ours=is_ours)

    def close(self, here: int) -> bool:
        """Close a port of this machine with its connections; return whether it was open."""
        found = self._listeners.pop(here, None)
        if found is None:
            return False
        for server in found.servers:
            server.close()
        for client in found.clients:
            client.transport.abort()
        return True

    def close_all(self) -> None:
        """Close all ports."""
        for here in tuple(self._listeners):
            self.close(here)

    async def _accept(
        self,
        wanted: Forward,
        clients: set[asyncio.StreamWriter],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        connection: Connection | None = self._relay.open(wanted.inside, wanted.service)
        if connection is None:
            writer.transport.abort()
            return
        clients.add(writer)
        try:
            await connection.carry(reader, writer)
        finally:
            clients.discard(writer)
        if connection.refused:
            self._refused(wanted)
        elif connection.heard:
            self._answered(wanted)


type Opened = Callable[[Forward], None]
type Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
type Live = Callable[[Ports], Coroutine[None, None, None]]


async def forward(  # noqa: PLR0913 - what happens, and what to do then
    command: Command,
    wanted: Sequence[Forward],
    *,
    opened: Opened,
    refused: Opened = lambda _: None,
    answered: Opened = lambda _: None,
    live: Live | None = None,
) -> str:
    """Relay until the side in the sandbox ends or this is cancelled; return the last line of its stderr.

    `command` runs relay.py in the sandbox. `opened` gets each port once it accepts connections, and `refused` or
    `answered` the port of each connection that has ended; `live` runs meanwhile, and can open and close more. Raises
    UserError for a wanted port that cannot be opened, and if the side in the sandbox breaks the rules of the relay.
    """
    async with AsyncExitStack() as stack:
        frames, child = await stack.enter_async_context(started(command))
        if not (child.stdin and child.stderr):
            raise AssertionError
        widen(child.stdin.get_extra_info("pipe"))
        said = asyncio.create_task(_last_line(child.stderr))
        relay = Relay(frames, child.stdin, None)
        ports = Ports(relay, refused, answered)
        stack.callback(ports.close_all)
        for one in wanted:
            opened(await ports.open(one))
        if live:
            stack.callback(asyncio.create_task(live(ports)).cancel)
        try:
            await relay.run()
        except BrokenRelayError as broken:
            what = f"the relay in the sandbox broke the protocol ({broken}), so all ports were closed"
            raise UserError([Problem(where="ports", what=what, hint="look at what runs inside")]) from broken
        return await said
    raise AssertionError


@asynccontextmanager
async def started(command: Command, *, stderr: int = PIPE) -> AsyncIterator[tuple[asyncio.StreamReader, Process]]:
    """Run a command of the engine; yield a reader of its stdout, and the process.

    With PIPE, the caller has to read its stderr.
    """
    ours, theirs = os.pipe()
    pipe = os.fdopen(ours, "rb", buffering=0)
    widen(pipe)
    said, transport = await read_pipe(pipe)
    try:
        try:
            with command.required():
                child = await asyncio.create_subprocess_exec(
                    *command.argv,
                    cwd=command.cwd,
                    stdin=PIPE,
                    stdout=theirs,
                    stderr=stderr,
                    start_new_session=True,  # Ctrl-C is for us
                )
        finally:
            os.close(theirs)
        try:
            yield said, child
        finally:
            transport.close()  # the agent may have filled it
            await _end(child)
    finally:
        transport.close()


async def _listen(accept: Accept, wanted: Forward) -> tuple[list[asyncio.Server], str]:
    """Listen on the wanted port, or on the next above it that is free on both addresses; return what is taken, too.

    If another program has the wanted port on ::1 alone, it stays that number: a callback knows no other.
    """
    taken = ""
    last = wanted.here + (ATTEMPTS if wanted.here else 0)
    for port in range(wanted.here, min(last, HIGHEST) + 1):
        first = await _server(accept, ADDRESS, port)
        if first is None:
            taken = taken or f"{ADDRESS}:{port}"
            continue
        here = first.sockets[0].getsockname()[1]
        try:
            second = await _server(accept, ADDRESS_6, here)
        except UserError:
            return [first], taken  # this machine has no IPv6
        if second:
            return [first, second], taken
        if port == wanted.here:
            return [first], f"[{ADDRESS_6}]:{here}"
        first.close()
    what = f"this port and the {ATTEMPTS} above it are in use on this machine"
    raise UserError([Problem(where=str(wanted.here), what=what, hint=f"name another one: PORT:{wanted.inside}")])


async def _server(accept: Accept, address: str, port: int) -> asyncio.Server | None:
    """Listen on an address; return None if it is in use."""
    try:
        return await asyncio.start_server(accept, address, port, limit=CHUNK)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None
        what = f"cannot listen on {address}:{port}: {(os.strerror(error.errno) if error.errno else str(error)).lower()}"
        hint = "ports below 1024 are for root: use another one, as in 8080:80" if port < 1024 else ""
        raise UserError([Problem(where=str(port), what=what, hint=hint)]) from error


async def _last_line(stream: asyncio.StreamReader) -> str:
    last = b""
    while data := await stream.read(CHUNK):
        last = (last.rstrip() + data if data.isspace() else last + data)[-LONGEST:]
    return last.rstrip().rpartition(b"\n")[2].decode("utf-8", "replace").strip()


async def _end(child: Process) -> None:
    if child.stdin:
        child.stdin.close()
    try:
        await asyncio.wait_for(child.wait(), GRACE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # the command of the engine has children
        await child.wait()
