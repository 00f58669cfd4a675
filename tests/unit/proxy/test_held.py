from __future__ import annotations

from agent_sandbox.proxy.held import held_bytes
from wire import PLAIN, Http2Wire, Wire


def test_nothing_is_held_over_http1() -> None:
    assert held_bytes([Wire(PLAIN).layer._http]) == 0


def test_what_a_client_does_not_take_is_held() -> None:
    wire = Http2Wire()
    wire.request()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000))
    ends = wire.layer._http.connections
    assert held_bytes(ends.values()) == 100_000 - 65_535
    assert wire.layer.held(to_client=True) == 100_000 - 65_535
    assert wire.layer.held(to_client=False) == 0
