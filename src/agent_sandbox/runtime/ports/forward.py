"""Accept connections on this machine's loopback interface, and relay them to ports of the sandbox."""

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.ports.relay import CHUNK, BrokenRelayError, Connection, Relay

ADDRESS = "127.0.0.1"
# How many ports above a busy one are tried.
ATTEMPTS = 20
GRACE = 2.0
HIGHEST = 65535
LONGEST = 1_000  # of the last line


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A port of this machine, and the port of the sandbox that it leads to. Port 0 means any free one."""

    here: int
    inside: int


type Opened = Callable[[Forward], None]


async def forward(argv: Sequence[str], cwd: Path, wanted: Sequence[Forward], *, opened: Opened) -> str:
    """Relay until the side in the sandbox ends or this is cancelled; return the last line of its stderr.

    `argv` runs relay.py in the sandbox. `opened` gets each port once it accepts connections. Raises UserError for a
    port that cannot be opened, and if the side in the sandbox breaks the rules of the relay.
    """
    child = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2 * CHUNK,
        start_new_session=True,  # Ctrl-C is for us
    )
    if not (child.stdin and child.stdout and child.stderr):
        raise AssertionError
    said = asyncio.create_task(_last_line(child.stderr))
    relay = Relay(child.stdout, child.stdin, None)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, child)
        for one in wanted:
            server, port = await _listen(relay, one)
            stack.callback(server.close)
            opened(Forward(here=port, inside=one.inside))
        try:
            await relay.run()
        except BrokenRelayError as broken:
            what = f"the relay in the sandbox broke the protocol ({broken}), so all ports were closed"
            raise UserError([Problem(where="ports", what=what, hint="look at what runs inside")]) from broken
        return await said
    raise AssertionError


async def _listen(relay: Relay, wanted: Forward) -> tuple[asyncio.Server, int]:
    """Listen on the wanted port, or on the next free one above it."""
    last = wanted.here + (ATTEMPTS if wanted.here else 0)
    for port in range(wanted.here, min(last, HIGHEST) + 1):
        try:
            server = await asyncio.start_server(partial(_accept, relay, wanted.inside), ADDRESS, port, limit=CHUNK)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            what = f"cannot listen on {ADDRESS}:{port}: {(error.strerror or str(error)).lower()}"
            hint = "ports below 1024 are for root: use another one, as in 8080:80" if port < 1024 else ""
            raise UserError([Problem(where=str(port), what=what, hint=hint)]) from error
        return server, server.sockets[0].getsockname()[1]
    what = f"this port and the {ATTEMPTS} above it are in use on this machine"
    raise UserError([Problem(where=str(wanted.here), what=what, hint=f"name another one: PORT:{wanted.inside}")])


async def _accept(relay: Relay, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection: Connection | None = relay.open(port)
    if connection is None:
        writer.transport.abort()
        return
    await connection.carry(reader, writer)


async def _last_line(stream: asyncio.StreamReader) -> str:
    last = b""
    while data := await stream.read(CHUNK):
        last = (last.rstrip() + data if data.isspace() else last + data)[-LONGEST:]
    return last.rstrip().rpartition(b"\n")[2].decode("utf-8", "replace").strip()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(CHUNK):
        pass


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.stdin:
        child.stdin.close()
    # A process has ended for asyncio when its pipes have, too, and the agent may have filled one.
    drained = asyncio.create_task(_drain(child.stdout)) if child.stdout else None
    try:
        await asyncio.wait_for(child.wait(), GRACE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # the command of the engine has children
        await child.wait()
    finally:
        if drained:
            drained.cancel()
