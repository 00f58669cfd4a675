from agent_sandbox.proxy.registry import Registry


def test_the_quietest_connection_makes_room() -> None:
    registry, closed = Registry(limit=2), []
    with (
        registry.admit("a", lambda: closed.append(1)) as use_first,
        registry.admit("a", lambda: closed.append(2)) as use_second,
    ):
        use_first()
        with registry.admit("a", lambda: closed.append(3)):
            assert (closed, len(registry)) == ([2], 2)
            use_second()
    assert len(registry) == 0


def test_clients_do_not_take_each_others_places() -> None:
    registry, closed = Registry(limit=1), []
    with registry.admit("a", lambda: closed.append(1)), registry.admit("b", lambda: closed.append(2)):
        assert (closed, len(registry)) == ([], 2)
