"""Server connections between two exchanges, shared by all clients.

A connection is here only while no exchange uses it. `take` hands it out to one exchange, and removes it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import Struct

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.limits import Limits

LIMITS = Limits()
MOST_REMEMBERED = 1024  # servers


class Server(NamedTuple):
    """Where a connection leads. With TLS, the server's certificate was verified for `host`."""

    tls: bool
    host: str
    port: int


class Connection(Protocol):
    """An open server connection."""

    @property
    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has arrived since the last response."""

    def rest(self, on_activity: Callable[[], None]) -> None:
        """Call `on_activity` when data arrives, or the connection ends."""

    def drop(self) -> None:
        """Close it."""


class Idle[C: Connection](Struct, kw_only=True, eq=False):
    """A connection, and whose requests it may carry.

    `policy` was in force when it was dialled, which decided its address, its upstream proxy and the CAs that its server
    was verified with. `secrets` are those that were sent on it.
    """

    connection: C
    server: Server
    policy: Policy
    secrets: object
    until: float


class ServerPool[C: Connection]:
    """Holds idle connections for a limited time, and closes those on which anything happens."""

    def __init__(self, limits: Limits = LIMITS, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._idle: dict[Server, list[Idle[C]]] = {}  # the last one was used last
        self._sweep: asyncio.TimerHandle | None = None
        self.without_http1: set[tuple[str, int]] = set()
        """Hosts and ports that did not choose HTTP/1.1."""

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    def take(self, server: Server, policy: Policy, secrets: object) -> C | None:
        """Remove and return a connection for a request under `policy` with exactly these secrets, if there is one."""
        for idle in reversed(self._idle.get(server, ())):
            if idle.secrets == secrets:
                self._remove(idle)
                if idle.policy is policy and idle.until > self._clock() and idle.connection.is_quiet:
                    return idle.connection
                idle.connection.drop()
        return None

    def give(  # noqa: PLR0913 - what `Idle` is made of
        self, connection: C, server: Server, *, policy: Policy, secrets: object, opened: float, seconds: float
    ) -> None:
        """Hold a connection, opened at the time `opened`, for at most `seconds`; close it if no time is left."""
        now, limits = self._clock(), self._limits
        until = min(now + min(seconds, limits.pool_idle_seconds), opened + limits.pool_age_seconds)
        idle = Idle(connection=connection, server=server, policy=policy, secrets=secrets, until=until)
        if until <= now:
            connection.drop()
            return
        connection.rest(partial(self._discard, idle))
        beside = self._idle.setdefault(server, [])
        beside.append(idle)
        if len(beside) > limits.pool_per_server:
            self._discard(beside[0])
        if len(self) > limits.pool_connections:
            self._discard(min(self._all(), key=lambda one: one.until))
        if self._sweep is None:
            self._sweep_at(until)

    def note_without_http1(self, host: str, port: int) -> None:
        """Note that a server did not choose HTTP/1.1."""
        if len(self.without_http1) >= MOST_REMEMBERED:
            self.without_http1.clear()
        self.without_http1.add((host, port))

    def clear(self) -> None:
        """Close all connections and forget which servers lack HTTP/1.1, such as when the policy changes."""
        self.without_http1.clear()
        for idle in [*self._all()]:
            self._discard(idle)

    def _all(self) -> Iterator[Idle[C]]:
        for beside in self._idle.values():
            yield from beside

    def _remove(self, idle: Idle[C]) -> None:
        beside = self._idle[idle.server]
        beside.remove(idle)
        if not beside:
            del self._idle[idle.server]

    def _discard(self, idle: Idle[C]) -> None:
        """Close a connection, unless it was taken."""
        if idle in self._idle.get(idle.server, ()):
            self._remove(idle)
            idle.connection.drop()

    def _sweep_at(self, time: float) -> None:
        delay = max(time - self._clock(), 0)
        self._sweep = asyncio.get_running_loop().call_later(delay, self._close_old)

    def _close_old(self) -> None:
        self._sweep, now = None, self._clock()
        for idle in [*self._all()]:
            if idle.until <= now:
                self._discard(idle)
        if self._idle:
            self._sweep_at(min(idle.until for idle in self._all()))
