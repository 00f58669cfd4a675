"""Open listening sockets, with clear error messages."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine

from agent_sandbox.problems import Problem, UserError

BACKLOG = 1_024

type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]

NOT_OURS = ("this machine does not have this address", "use 127.0.0.1, or 0.0.0.0 for all addresses")
REASONS = {
    # For a host name, asyncio tries each address, and raises without an errno if this machine has none of them.
    None: NOT_OURS,
    errno.EADDRNOTAVAIL: NOT_OURS,
    errno.EADDRINUSE: ("the port is in use", "stop the program that uses it, or choose another port; 0 takes any"),
    errno.EACCES: ("permission denied", "choose a port above 1023"),
    errno.EPERM: ("permission denied", "choose a port above 1023"),
}


def in_tasks(serve: Serve) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Return a callback that runs `serve` in a task for each connection. Cancelled tasks end without a message.

    asyncio would print a traceback for each that is cancelled, up to Python 3.12.1.
    """
    running: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def done(task: asyncio.Task[None]) -> None:
            running.discard(task)
            if task.cancelled():
                writer.transport.close()
            elif error := task.exception():
                writer.transport.close()
                said = {"message": "Unhandled exception in a connection", "exception": error}
                asyncio.get_running_loop().call_exception_handler(said)

        task = asyncio.create_task(serve(reader, writer))
        running.add(task)
        task.add_done_callback(done)

    return accept


async def listen(serve: Serve, host: str, port: int, *, option: str = "--listen") -> asyncio.Server:
    """Listen for TCP connections; port 0 means any free port. Raises `UserError`."""
    try:
        return await asyncio.start_server(in_tasks(serve), host, port, backlog=BACKLOG)
    except OSError as error:
        raise _refused(error, f"{option} {host}:{port}") from error


async def listen_udp[T: asyncio.DatagramProtocol](
    protocol: Callable[[], T], host: str, port: int, *, option: str
) -> asyncio.DatagramTransport:
    """Listen for UDP datagrams. Raises `UserError`."""
    try:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(protocol, local_addr=(host, port))
    except OSError as error:
        raise _refused(error, f"{option} {host}:{port}") from error
    return transport


def _refused(error: OSError, where: str) -> UserError:
    why, hint = _reason(error)
    return UserError([Problem(where=where, what=f"cannot listen: {why}", hint=hint)])


def _reason(error: OSError) -> tuple[str, str]:
    if isinstance(error, socket.gaierror):
        return "not an address, and not a resolvable host name", "such as 127.0.0.1:8080"
    return REASONS.get(error.errno) or (os.strerror(error.errno or 0), "")


def address_of(server: asyncio.Server) -> str:
    """Return the address of `server` as HOST:PORT."""
    host, port, *_ = server.sockets[0].getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
