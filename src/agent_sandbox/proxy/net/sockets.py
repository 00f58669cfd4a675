"""Open the sockets that clients come to, or say why it cannot be."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable

from agent_sandbox.problems import Problem, UserError

BACKLOG = 1_024

type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

NOT_OURS = ("this machine has no such address", "127.0.0.1 is always one, 0.0.0.0 means all of them")
REASONS = {
    # asyncio tries each address of a name, and loses the number where this machine has none of them.
    None: NOT_OURS,
    errno.EADDRNOTAVAIL: NOT_OURS,
    errno.EADDRINUSE: ("something else listens there", "stop it, or choose another port; 0 takes one that is free"),
    errno.EACCES: ("this user may not", "choose a port above 1023"),
    errno.EPERM: ("this user may not", "choose a port above 1023"),
}


async def listen(serve: Serve, host: str, port: int, *, option: str = "--listen") -> asyncio.Server:
    """Listen at `host` and `port`, 0 being any port. Raises `UserError`."""
    try:
        return await asyncio.start_server(serve, host, port, backlog=BACKLOG)
    except OSError as error:
        raise _refused(error, f"{option} {host}:{port}") from error


async def listen_udp[T: asyncio.DatagramProtocol](
    protocol: Callable[[], T], host: str, port: int, *, option: str
) -> asyncio.DatagramTransport:
    """Take datagrams at `host` and `port`. Raises `UserError`."""
    try:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(protocol, local_addr=(host, port))
    except OSError as error:
        raise _refused(error, f"{option} {host}:{port}") from error
    return transport


def _refused(error: OSError, where: str) -> UserError:
    why, hint = _reason(error)
    return UserError([Problem(where=where, what=f"cannot listen there: {why}", hint=hint)])


def _reason(error: OSError) -> tuple[str, str]:
    if isinstance(error, socket.gaierror):
        return "that is no address, and no name that this machine can look up", "such as 127.0.0.1:8080"
    return REASONS.get(error.errno) or (os.strerror(error.errno or 0), "")


def address_of(server: asyncio.Server) -> str:
    """Return where `server` listens, as a client dials it."""
    host, port, *_ = server.sockets[0].getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
