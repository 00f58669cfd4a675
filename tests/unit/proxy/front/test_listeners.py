from collections.abc import Callable
from typing import Any, cast

import pytest

from agent_sandbox.proxy.front import listeners as subject
from agent_sandbox.proxy.front.dns_sockets import OverUdp
from agent_sandbox.proxy.front.explicit_proxy import ExplicitProxy
from agent_sandbox.proxy.front.listeners import open_entrances
from agent_sandbox.proxy.front.transparent import TransparentProxy
from agent_sandbox.proxy.settings import Entrances

TRANSPARENT = TransparentProxy(
    cast("ExplicitProxy", None), cast("Any", None), limits=cast("Any", None), record=lambda _: None
)


class Listening:
    """A fake listening socket."""

    def __init__(self, served: object, place: tuple[str, int]) -> None:
        self.served, self.place, self.closed, self.sockets = served, place, False, [self]

    def getsockname(self) -> tuple[str, int]:
        return self.place

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, Listening]:
    made: dict[str, Listening] = {}

    async def listen(serve: object, host: str, port: int, *, option: str) -> Listening:
        return made.setdefault(option, Listening(serve, (host, port or 5353)))

    async def listen_udp(protocol: Callable[[], object], host: str, port: int, *, option: str) -> Listening:
        return made.setdefault(f"{option} udp", Listening(protocol(), (host, port)))

    monkeypatch.setattr(subject, "listen", listen)
    monkeypatch.setattr(subject, "listen_udp", listen_udp)
    return made


async def test_each_listener_uses_its_configured_address(opened: dict[str, Listening]) -> None:
    places = Entrances(tls=("10.0.0.2", 443), http=("10.0.0.2", 80), dns=("10.0.0.2", 0))
    got = await open_entrances(places, TRANSPARENT, lambda *_: None)
    assert got.listening == {"tls": "10.0.0.2:443", "http": "10.0.0.2:80", "dns": "10.0.0.2:5353"}
    assert opened["--tls"].served == TRANSPARENT.serve_tls
    assert opened["--http"].served == TRANSPARENT.serve_http
    assert opened["--dns udp"].place == ("10.0.0.2", 5353)
    assert isinstance(opened["--dns udp"].served, OverUdp)
    got.close()
    assert all(entrance.closed for entrance in opened.values())


async def test_opens_no_listener_without_an_address(opened: dict[str, Listening]) -> None:
    got = await open_entrances(Entrances(), TRANSPARENT, lambda *_: None)
    assert (got.listening, got.open, opened) == ({}, (), {})
