import pytest

from agent_sandbox.proxy.upstream.loop_guard import LoopGuard


@pytest.mark.parametrize(
    ("address", "port", "wanted"),
    [
        ("127.0.0.1", 8080, True),
        ("127.0.0.1", 443, True),
        ("127.9.9.9", 8080, True),
        ("127.0.0.1", 8081, False),
        ("198.51.100.77", 8080, False),
        ("fd00::77", 8080, False),
    ],
)
def test_matches_the_ports_of_the_proxy_on_every_address_of_the_machine(
    address: str, port: int, *, wanted: bool
) -> None:
    itself = LoopGuard()
    itself.listens("0.0.0.0:8080", "[::]:443")
    assert itself.is_at(address, port) is wanted


def test_matches_nothing_before_the_proxy_listens() -> None:
    assert not LoopGuard().is_at("127.0.0.1", 8080)
