from agent_sandbox.proxy.holding import FORGOTTEN_SECONDS, Holding
from agent_sandbox.proxy.ledger import Ledger
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.line import Event, Line


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def ledger() -> Ledger:
    return Ledger(line=Line(event=Event.REQUEST), started=0.0)


def test_so_many_bodies_are_held_and_no_more() -> None:
    holding = Holding(Limits(bodies_held=2), clock=Clock())
    first, second, third = ledger(), ledger(), ledger()
    assert [holding.admits(one) for one in (first, second, third)] == [True, True, False]
    assert [one.held for one in (first, second, third)] == [True, True, False]


def test_one_that_is_no_longer_held_makes_room() -> None:
    holding = Holding(Limits(bodies_held=1), clock=Clock())
    first = ledger()
    assert holding.admits(first)
    first.held = False
    assert holding.admits(ledger())


def test_one_whose_end_nobody_noticed_makes_room_in_time() -> None:
    clock = Clock()
    holding = Holding(Limits(bodies_held=1), clock=clock)
    assert holding.admits(ledger())
    clock.now = FORGOTTEN_SECONDS - 1
    assert not holding.admits(ledger())
    clock.now = FORGOTTEN_SECONDS
    assert holding.admits(ledger())
