from agent_sandbox.proxy.exchange.body_quota import FORGOTTEN_SECONDS, BodyQuota
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def exchange() -> Exchange:
    head = RequestHead(b"POST", b"/graphql", b"HTTP/1.1", ())
    return open_exchange(head, Tunnel(client="", carries=Carries.PROXY), started=0.0)


def test_so_many_bodies_are_held_and_no_more() -> None:
    holding = BodyQuota(Limits(bodies_held=2), clock=Clock())
    first, second, third = exchange(), exchange(), exchange()
    assert [holding.admits(one) for one in (first, second, third)] == [True, True, False]
    assert [one.held for one in (first, second, third)] == [True, True, False]


def test_one_that_is_no_longer_held_makes_room() -> None:
    holding = BodyQuota(Limits(bodies_held=1), clock=Clock())
    first = exchange()
    assert holding.admits(first)
    first.held = False
    assert holding.admits(exchange())


def test_one_whose_end_nobody_noticed_makes_room_in_time() -> None:
    clock = Clock()
    holding = BodyQuota(Limits(bodies_held=1), clock=clock)
    assert holding.admits(exchange())
    clock.now = FORGOTTEN_SECONDS - 1
    assert not holding.admits(exchange())
    clock.now = FORGOTTEN_SECONDS
    assert holding.admits(exchange())
