from __future__ import annotations

from contextlib import ExitStack

from agent_sandbox.proxy.net.connection_limit import ConnectionLimiter, Place


class Client:
    """Opens connections, and knows which of them were closed for it."""

    def __init__(self, stack: ExitStack, *, limit: int) -> None:
        self.stack = stack
        self.registry = ConnectionLimiter(limit=limit)
        self.closed: list[int] = []

    def opens(self, number: int, *, address: str = "a", served: bool = False) -> Place:
        place = self.stack.enter_context(self.registry.admit(address, lambda: self.closed.append(number)))
        if served:
            place.served()
        return place


def test_the_quietest_connection_makes_room() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=2)
        first, second = client.opens(1), client.opens(2)
        first.used()
        client.opens(3)
        assert (client.closed, len(client.registry)) == ([2], 2)
        second.used()
    assert len(client.registry) == 0


def test_what_comes_for_the_client_is_use_as_well() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=2)
        first, _ = client.opens(1, served=True), client.opens(2, served=True)
        first.served()
        client.opens(3)
        assert client.closed == [2]


def test_those_that_no_server_ever_answered_go_before_those_that_work() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=16)
        working = [client.opens(number, served=True) for number in range(8)]
        for number in range(8, 100):
            client.opens(number)
        assert client.closed == [*range(8, 92)]
        assert len(client.registry) == 16
        working[0].used()


def test_where_all_work_those_that_begin_do_not_close_one_another() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=16)
        for number in range(16):
            client.opens(number, served=True)
        for number in range(16, 19):
            client.opens(number)
        assert client.closed == [0, 1, 2]
        client.opens(19)
        assert client.closed == [0, 1, 2, 16]


def test_clients_do_not_take_each_others_places() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=1)
        client.opens(1)
        client.opens(2, address="b")
        assert (client.closed, len(client.registry)) == ([], 2)
