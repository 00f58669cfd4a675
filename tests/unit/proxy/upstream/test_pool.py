import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.upstream.pool import MOST_REMEMBERED, Server, ServerPool

A, B = Server(True, "a.test", 443), Server(True, "b.test", 443)  # noqa: FBT003 - with TLS
OLD, NEW = Policy.deny_all("old"), Policy.deny_all("old")
LIMITS = Limits(pool_connections=3, pool_per_server=2, pool_idle_seconds=10, pool_age_seconds=100)


@dataclass(eq=False)
class Fake:
    """A connection that a test controls."""

    is_quiet: bool = True
    is_dropped: bool = False
    on_activity: Callable[[], None] | None = None
    dropped: asyncio.Event = field(default_factory=asyncio.Event)

    def rest(self, on_activity: Callable[[], None]) -> None:
        """Store the callback."""
        self.on_activity = on_activity

    def drop(self) -> None:
        """Close, and call the callback."""
        assert not self.is_dropped
        self.is_dropped = True
        self.dropped.set()
        if self.on_activity:
            self.on_activity()


class Pool(ServerPool[Fake]):
    """A pool with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(LIMITS, clock=lambda: self.now)

    def put(
        self, connection: Fake, server: Server = A, secrets: object = None, opened: float = 1000, seconds: float = 60
    ) -> Fake:
        """Return the connection to the pool under the old policy."""
        self.give(connection, server, policy=OLD, secrets=secrets, opened=opened, seconds=seconds)
        return connection


@pytest.fixture
async def pool() -> Pool:
    return Pool()


async def test_take_returns_each_connection_once_and_the_last_used_first(pool: Pool) -> None:
    first, last = pool.put(Fake()), pool.put(Fake())
    assert [pool.take(A, OLD, None) for _ in range(3)] == [last, first, None]
    assert (len(pool), first.is_dropped, last.is_dropped) == (0, False, False)


@pytest.mark.parametrize("other", [B, A._replace(tls=False), A._replace(port=8443)])
async def test_does_not_reuse_a_connection_for_another_server(pool: Pool, other: Server) -> None:
    pool.put(Fake())
    assert pool.take(other, OLD, None) is None
    assert len(pool) == 1


async def test_does_not_reuse_a_connection_for_other_secrets(pool: Pool) -> None:
    one, two = pool.put(Fake(), secrets="one"), pool.put(Fake(), secrets="two")
    assert pool.take(A, OLD, None) is None
    assert pool.take(A, OLD, "one") is one
    assert pool.take(A, OLD, "one") is None
    assert not two.is_dropped


async def test_does_not_reuse_a_connection_under_an_equal_policy_that_was_loaded_later(pool: Pool) -> None:
    assert OLD == NEW
    connection = pool.put(Fake())
    assert pool.take(A, NEW, None) is None
    assert connection.is_dropped


async def test_closes_a_connection_on_which_data_arrived(pool: Pool) -> None:
    good, bad = pool.put(Fake()), pool.put(Fake())
    bad.is_quiet = False
    assert pool.take(A, OLD, None) is good
    assert bad.is_dropped


async def test_activity_closes_an_idle_connection_but_not_a_taken_connection(pool: Pool) -> None:
    taken, left = pool.put(Fake()), pool.put(Fake())
    assert left.on_activity
    left.on_activity()
    assert left.is_dropped
    assert pool.take(A, OLD, None) is taken
    assert taken.on_activity
    taken.on_activity()
    assert (taken.is_dropped, len(pool)) == (False, 0)


@pytest.mark.parametrize(("opened", "seconds"), [(1000, 0), (1000, -1), (900, 60)])
async def test_closes_a_connection_without_time_left(pool: Pool, opened: float, seconds: float) -> None:
    assert pool.put(Fake(), opened=opened, seconds=seconds).is_dropped
    assert len(pool) == 0


@pytest.mark.parametrize(("opened", "seconds", "left"), [(1000, 60, 10), (1000, 4, 4), (903, 60, 3)])
async def test_reuses_a_connection_only_until_its_time_is_over(
    pool: Pool, opened: float, seconds: float, left: float
) -> None:
    connection = pool.put(Fake(), opened=opened, seconds=seconds)
    pool.now += left - 0.1
    assert pool.take(A, OLD, None) is connection
    pool.put(connection, opened=opened, seconds=min(seconds, 0.1))
    pool.now += 0.2
    assert pool.take(A, OLD, None) is None
    assert connection.is_dropped


async def test_closes_old_connections_by_a_timer(pool: Pool) -> None:
    waits = [pool.put(Fake(), seconds=seconds) for seconds in (0.001, 9)]
    pool.now += 1
    await asyncio.wait_for(waits[0].dropped.wait(), 5)
    assert [one.is_dropped for one in waits] == [True, False]
    pool.now += 9
    pool._close_old()
    assert (len(pool), waits[1].is_dropped) == (0, True)


async def test_closes_the_oldest_connection_at_the_limit(pool: Pool) -> None:
    first, second, third = (pool.put(Fake()) for _ in range(3))
    assert (first.is_dropped, second.is_dropped) == (True, False)
    pool.now += 1
    other = [pool.put(Fake(), B) for _ in range(2)]
    assert (second.is_dropped, third.is_dropped, len(pool)) == (True, False, 3)
    assert not any(one.is_dropped for one in other)


async def test_clear_closes_all_connections(pool: Pool) -> None:
    held = [pool.put(Fake(), server) for server in (A, B)]
    pool.clear()
    assert (len(pool), [one.is_dropped for one in held]) == (0, [True, True])


async def test_servers_without_http1_are_remembered_until_the_policy_changes(pool: Pool) -> None:
    for number in range(MOST_REMEMBERED):
        pool.note_without_http1("a.test", number)
    assert len(pool.without_http1) == MOST_REMEMBERED
    pool.note_without_http1("b.test", 443)
    assert pool.without_http1 == {("b.test", 443)}
    pool.clear()
    assert pool.without_http1 == set()
