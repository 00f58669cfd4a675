"""Join all data that one event sends to a connection into one write.

asyncio recounts its buffer at each write. A body in chunks of one byte causes thousands of tiny writes, which blocked
all other connections for seconds.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from mitmproxy.connection import Connection
from mitmproxy.proxy.commands import Command, SendData


def coalesce(commands: Iterable[Command]) -> Iterator[Command]:
    """Yield `commands` in order, with consecutive sends to the same connection joined into one."""
    for receiver, group in groupby(commands, key=_receiver):
        if receiver is None:
            yield from group
        else:
            yield SendData(receiver, b"".join(command.data for command in group if isinstance(command, SendData)))


def _receiver(command: Command) -> Connection | None:
    return command.connection if isinstance(command, SendData) else None
