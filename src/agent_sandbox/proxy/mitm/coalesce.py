"""One write for all that an event sends to a connection.

asyncio counts what it holds anew at each write: thousands of tiny ones, as a body in chunks of a byte makes, took it
seconds in which nobody else was served.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from mitmproxy.connection import Connection
from mitmproxy.proxy.commands import Command, SendData


def coalesce(commands: Iterable[Command]) -> Iterator[Command]:
    """Yield `commands` in their order; those that send to one connection, one behind the other, as one."""
    for receiver, group in groupby(commands, key=_receiver):
        if receiver is None:
            yield from group
        else:
            yield SendData(receiver, b"".join(command.data for command in group if isinstance(command, SendData)))


def _receiver(command: Command) -> Connection | None:
    return command.connection if isinstance(command, SendData) else None
