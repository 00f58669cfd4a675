import asyncio

import pytest

from agent_sandbox.policy import decide
from agent_sandbox.policy.explain.offer import Offer, offer_for
from agent_sandbox.proxy.ask.grant_book import CHECK_SECONDS, LONGEST_SECONDS, Scope, later
from asking_world import World, request
from policy_texts import PolicyOf

GET = request("GET https://new.test/x")


@pytest.fixture
def world(policy: PolicyOf) -> World:
    """A policy without the host."""
    return World(policy("domains: [a.test]"))


def offer(world: World) -> Offer:
    found = offer_for(GET, world.store.current)
    assert found
    assert found.lasting
    return found


async def add(world: World, scope: Scope, seconds: float | None = None) -> None:
    assert world.grants.add(offer(world), GET, scope, who="ana", seconds=seconds) == ""
    await asyncio.sleep(0)


async def test_a_grant_for_a_time_is_in_force_until_it_expires(world: World) -> None:
    await add(world, Scope.TIME, 60.0)
    assert decide(world.store.current, GET).reason == "allowed by grant:1: for 1 minutes, by ana"
    (grant,) = world.grants
    assert (grant.number, grant.who, grant.text, grant.until) == (1, "ana", "GET https://new.test/**", 160.0)
    world.timers[-1].call()
    assert decide(world.store.current, GET).allowed
    world.now += 60  # the machine slept, so more time passed than the timer measured
    world.timers[-1].call()
    await asyncio.sleep(0)
    assert [timer.seconds for timer in world.timers] == [CHECK_SECONDS] * 2
    assert not decide(world.store.current, GET).allowed
    assert [record.reason for record in world.records] == [
        "granted for 1 minutes by ana: GET https://new.test/**",
        "the grant ended, it expired: GET https://new.test/**",
    ]
    assert [(one.old.granted is None, one.new.granted is None) for one in world.reviews] == [
        (True, False),
        (False, True),
    ]


async def test_a_grant_until_the_sandbox_stops_has_no_timer_and_can_be_ended(world: World) -> None:
    await add(world, Scope.STOP)
    assert (world.timers, [grant.until for grant in world.grants]) == ([], [None])
    assert world.grants.end(1, "ana ended it") is True
    assert world.grants.end(1, "ana ended it") is False
    assert not decide(world.store.current, GET).allowed


async def test_no_grant_for_a_time_is_longer_than_a_day(world: World) -> None:
    await add(world, Scope.TIME, 10**9)
    await add(world, Scope.TIME)
    assert [grant.until for grant in world.grants] == [100 + LONGEST_SECONDS] * 2
    world.grants.end(1, "ana ended it")
    world.timers[0].call()
    assert len(world.timers) == 2


def test_a_grant_for_one_request_is_recorded_and_not_added_to_the_policy(world: World) -> None:
    rule = world.grants.single(offer(world).once, GET, who="ana")
    world.grants.record_denial(GET, who="bo")
    assert not decide(world.store.current, GET).allowed
    assert decide(world.store.current.granting((rule,)), GET).reason == "allowed by grant:1: once, by ana"
    told = [(str(one.event), str(one.decision), one.rule, one.reason, one.host, one.path) for one in world.records]
    assert told == [
        ("grant", "allow", "grant:1", "allowed once by ana", "new.test", "/x"),
        ("grant", "deny", None, "denied by bo", "new.test", "/x"),
    ]


async def test_later_calls_the_function_after_the_delay() -> None:
    rang = asyncio.Event()
    later(0, rang.set)
    assert not rang.is_set()
    await rang.wait()
