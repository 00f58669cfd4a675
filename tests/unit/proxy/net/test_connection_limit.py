from contextlib import ExitStack

from agent_sandbox.proxy.net.connection_limit import ConnectionLimiter, Place


class Client:
    """A client that opens connections and notes which were closed."""

    def __init__(self, stack: ExitStack, *, limit: int) -> None:
        self.stack = stack
        self.registry = ConnectionLimiter(limit=limit)
        self.closed: list[int] = []

    def opens(self, number: int, *, address: str = "a", served: bool = False) -> Place:
        place = self.stack.enter_context(self.registry.admit(address, lambda: self.closed.append(number)))
        if served:
            place.served()
        return place


def test_closes_the_least_recently_used_connection_at_the_limit() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=2)
        first, second = client.opens(1), client.opens(2)
        first.used()
        client.opens(3)
        assert (client.closed, len(client.registry)) == ([2], 2)
        second.used()
    assert len(client.registry) == 0


def test_data_from_the_server_counts_as_use() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=2)
        first, _ = client.opens(1, served=True), client.opens(2, served=True)
        first.served()
        client.opens(3)
        assert client.closed == [2]


def test_closes_unserved_connections_before_served_connections() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=16)
        working = [client.opens(number, served=True) for number in range(8)]
        for number in range(8, 100):
            client.opens(number)
        assert client.closed == [*range(8, 92)]
        assert len(client.registry) == 16
        working[0].used()


def test_closes_served_connections_until_the_places_for_new_connections_are_full() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=16)
        for number in range(16):
            client.opens(number, served=True)
        for number in range(16, 19):
            client.opens(number)
        assert client.closed == [0, 1, 2]
        client.opens(19)
        assert client.closed == [0, 1, 2, 16]


def test_the_limit_applies_to_each_client_separately() -> None:
    with ExitStack() as stack:
        client = Client(stack, limit=1)
        client.opens(1)
        client.opens(2, address="b")
        assert (client.closed, len(client.registry)) == ([], 2)
