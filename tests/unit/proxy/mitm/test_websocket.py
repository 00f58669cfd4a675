from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mitmproxy.proxy import events

from agent_sandbox.policy import Effect
from agent_sandbox.proxy.exchange.exchange import OverBudget
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.mitm.websocket import WebSocketRelay
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.wire.websocket_frames import TEXT, frame
from layer_harness import PLAIN, Wire

if TYPE_CHECKING:
    from agent_sandbox.proxy.exchange.exchange import Exchange
    from agent_sandbox.proxy.tunnel import Tunnel

UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
ASKED = b"GET /ws HTTP/1.1\r\nHost: a.test\r\n" + UPGRADE + b"Sec-WebSocket-Version: 13\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\n" + UPGRADE + b"\r\n"
SAID, HEARD = b"\x82\x83mask" + b"abc", b"\x81\x02hi"
CLOSE_OF_CLIENT, CLOSE_OF_SERVER = b"\x88\x80mask", b"\x88\x00"


class Keeping:
    """Keeps what was known of a WebSocket at its end."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int, str]] = []

    @hook
    def websocket_end(self, exchange: Exchange, _: Tunnel) -> None:
        """Keep what came of it."""
        self.ended.append((exchange.sent.count, exchange.received.count, exchange.error))


class Stage:
    """A WebSocket that has begun; `to_server` and `to_client` are what went over it."""

    def __init__(self, *addons: object) -> None:
        self.wire = Wire(PLAIN, *addons)
        self.wire.client_sends(ASKED)
        self.wire.server_sends(SWITCHED)
        self.before = len(self.wire.to_server), len(self.wire.to_client)

    @property
    def to_server(self) -> bytes:
        return self.wire.to_server[self.before[0] :]

    @property
    def to_client(self) -> bytes:
        return self.wire.to_client[self.before[1] :]

    @property
    def closed(self) -> bool:
        return {self.wire.client, *self.wire.servers} == set(self.wire.closed)


def test_forwards_frames_unchanged_in_both_directions_and_counts_their_bytes() -> None:
    keeping = Keeping()
    stage = Stage(keeping)
    stage.wire.client_sends(SAID)
    stage.wire.server_sends(HEARD)
    assert (stage.to_server, stage.to_client, stage.closed) == (SAID, HEARD, False)
    stage.wire.closes(stage.wire.client)
    assert (stage.closed, keeping.ended) == (True, [(3, 2, "")])


def test_closes_both_connections_when_both_sides_have_sent_a_close_frame() -> None:
    stage = Stage()
    stage.wire.client_sends(CLOSE_OF_CLIENT + SAID)
    stage.wire.server_sends(HEARD)
    assert (stage.to_server, stage.to_client, stage.closed) == (CLOSE_OF_CLIENT, HEARD, False)
    stage.wire.server_sends(CLOSE_OF_SERVER)
    assert (stage.to_client, stage.closed) == (HEARD + CLOSE_OF_SERVER, True)


def test_closes_both_connections_if_the_second_close_frame_does_not_arrive_in_time() -> None:
    stage = Stage()
    stage.wire.server_sends(CLOSE_OF_SERVER)
    stage.wire.server_sends(b"more")
    (patience,) = stage.wire.wakeups
    assert (stage.to_client, stage.closed, patience.delay) == (CLOSE_OF_SERVER, False, 2.0)
    stage.wire.feed(events.Wakeup(patience))
    assert stage.closed


def test_closes_both_connections_at_a_malformed_frame_and_does_not_forward_it() -> None:
    keeping = Keeping()
    stage = Stage(keeping)
    stage.wire.server_sends(HEARD)
    stage.wire.server_sends(b"SSH-2.0-server\r\n")
    stage.wire.client_sends(SAID)
    assert (stage.to_server, stage.to_client, stage.closed) == (b"", HEARD, True)
    assert keeping.ended == [(0, 2, "the server sent a frame of unknown type")]


def test_closes_a_websocket_whose_exchange_is_unknown() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(ASKED)
    (stream,) = wire.layer._http.streams.values()
    wire.server_sends(SWITCHED)
    assert isinstance(stream.child_layer, WebSocketRelay)
    stream.child_layer._exchange = None
    wire.client_sends(SAID)
    wire.closes(wire.client)
    assert {wire.client, *wire.servers} == set(wire.closed)


@pytest.mark.parametrize(("echoes", "seen"), [(Echoes([b"secret"]), b"******"), (Echoes(), b"secret")])
def test_redacts_only_frames_from_a_server_that_received_a_secret(echoes: Echoes, seen: bytes) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(ASKED)
    wire.layer.exchanges[0].echoes = echoes
    wire.server_sends(SWITCHED)
    wire.server_sends(frame(TEXT, b"secret", ends=True))
    wire.client_sends(b"\x82\x86\0\0\0\0secret")
    assert wire.to_client.endswith(b"\r\n\r\n" + frame(TEXT, seen, ends=True))
    assert wire.to_server.endswith(b"secret")


def test_closes_a_websocket_when_a_budget_is_used_up() -> None:
    keeping = Keeping()
    stage = Stage(keeping)
    (exchange,) = stage.wire.layer.exchanges
    exchange.spend = lambda kind, size: OverBudget(f"no more {kind}", 9) if kind == "download" and size > 4 else None
    stage.wire.client_sends(SAID)
    stage.wire.server_sends(HEARD)
    stage.wire.server_sends(HEARD * 2)
    assert (stage.to_server, stage.to_client, stage.closed) == (SAID, HEARD, True)
    assert keeping.ended == [(3, 6, "no more download")]
    assert (exchange.outcome.effect, exchange.outcome.cause) == (Effect.DENY, "budget")
