from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mitmproxy.proxy import events

from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.mitm.websocket import RedactedFrames, WebSocketRelay
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.wire.websocket_frames import BINARY, CLOSE, CONTINUES, PING, TEXT, BadFrameError, Frames, frame
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


def test_frames_go_both_ways_as_they_came_and_are_counted() -> None:
    keeping = Keeping()
    stage = Stage(keeping)
    stage.wire.client_sends(SAID)
    stage.wire.server_sends(HEARD)
    assert (stage.to_server, stage.to_client, stage.closed) == (SAID, HEARD, False)
    stage.wire.closes(stage.wire.client)
    assert (stage.closed, keeping.ended) == (True, [(3, 2, "")])


def test_it_is_over_when_both_have_said_so() -> None:
    stage = Stage()
    stage.wire.client_sends(CLOSE_OF_CLIENT + SAID)
    stage.wire.server_sends(HEARD)
    assert (stage.to_server, stage.to_client, stage.closed) == (CLOSE_OF_CLIENT, HEARD, False)
    stage.wire.server_sends(CLOSE_OF_SERVER)
    assert (stage.to_client, stage.closed) == (HEARD + CLOSE_OF_SERVER, True)


def test_a_side_that_never_says_so_is_not_waited_for() -> None:
    stage = Stage()
    stage.wire.server_sends(CLOSE_OF_SERVER)
    stage.wire.server_sends(b"more")
    (patience,) = stage.wire.wakeups
    assert (stage.to_client, stage.closed, patience.delay) == (CLOSE_OF_SERVER, False, 2.0)
    stage.wire.feed(events.Wakeup(patience))
    assert stage.closed


def test_what_is_no_frame_goes_nowhere_and_is_the_end() -> None:
    keeping = Keeping()
    stage = Stage(keeping)
    stage.wire.server_sends(HEARD)
    stage.wire.server_sends(b"SSH-2.0-server\r\n")
    stage.wire.client_sends(SAID)
    assert (stage.to_server, stage.to_client, stage.closed) == (b"", HEARD, True)
    assert keeping.ended == [(0, 2, "the server sent a frame of unknown type")]


def test_one_whose_exchange_is_not_known_ends_all_the_same() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(ASKED)
    (stream,) = wire.layer._http.streams.values()
    wire.server_sends(SWITCHED)
    assert isinstance(stream.child_layer, WebSocketRelay)
    stream.child_layer._exchange = None
    wire.client_sends(SAID)
    wire.closes(wire.client)
    assert {wire.client, *wire.servers} == set(wire.closed)


ECHOES = Echoes([b"secret", b"a" * 30])
Read = list[tuple[int, bytes]]
MESSAGES = [
    (frame(TEXT, b"no echo", ends=True), [(TEXT, b"no echo")]),
    (frame(TEXT, b"", ends=True), [(TEXT, b"")]),
    (frame(BINARY, b"a secret!", ends=True), [(BINARY, b"a ******!")]),
    (frame(TEXT, b"sec", ends=False) + frame(CONTINUES, b"ret", ends=True), [(TEXT, b"******")]),
    (frame(TEXT, b"sec", ends=False) + frame(CONTINUES, b"", ends=True), [(TEXT, b"sec")]),
    (
        frame(TEXT, b"<sec", ends=False) + frame(PING, b"a secret", ends=True) + frame(CONTINUES, b"ret>", ends=True),
        [(PING, b"a ******"), (TEXT, b"<******>")],
    ),
    (frame(TEXT, b"sec", ends=True) + frame(TEXT, b"ret", ends=True), [(TEXT, b"sec"), (TEXT, b"ret")]),
    (frame(TEXT, b"secret " * 30, ends=True), [(TEXT, b"****** " * 30)]),
    (frame(CLOSE, b"\x03\xe8secret", ends=True) + b"more", [(CLOSE, b"\x03\xe8******")]),
]


def messages(data: bytes) -> Read:
    """Return what a client reads: control frames and complete messages, each with its opcode."""
    found: Read = []
    opcode, message = CONTINUES, b""
    assert Frames(masked=False, longest=10_000).read(data) == data
    while data:
        size, at = data[1], 2
        if size == 126:
            size, at = int.from_bytes(data[2:4]), 4
        kind, ends, payload, data = data[0] & 15, data[0] & 128, data[at : at + size], data[at + size :]
        if kind >= CLOSE:
            found.append((kind, payload))
            continue
        opcode, message = kind or opcode, message + payload
        if ends:
            found.append((opcode, message))
            message = b""
    return found


@pytest.mark.parametrize(("sent", "read"), MESSAGES)
def test_an_echo_in_a_message_is_overwritten_however_the_data_is_cut(
    sent: bytes, read: list[tuple[int, bytes]]
) -> None:
    for size in (1, 2, 3, 5, len(sent)):
        frames = RedactedFrames(longest=10_000, echoes=ECHOES)
        shown = b"".join(frames.read(sent[at : at + size]) for at in range(0, len(sent), size))
        assert messages(shown) == read
        assert frames.count == sum(len(payload) for kind, payload in read if kind < CLOSE)
        assert frames.closed is (read[-1][0] == CLOSE)


def test_a_message_that_comes_whole_stays_one_frame() -> None:
    frames = RedactedFrames(longest=10_000, echoes=ECHOES)
    assert frames.read(frame(TEXT, b"a secret", ends=True)) == frame(TEXT, b"a ******", ends=True)


def test_no_more_of_a_message_is_held_than_what_may_be_the_start_of_an_echo() -> None:
    frames = RedactedFrames(longest=1_000_000, echoes=ECHOES)
    sent = frame(TEXT, b"x" * 500_000 + b"secre", ends=False)
    assert len(frames.read(sent)) == len(sent) - 5


@pytest.mark.parametrize("bad", [b"\xc1\x01x", b"\x81\x81maskx", b"\x80\x01x", b"\x83\x00"])
def test_what_is_no_frame_ends_a_searched_websocket_too(bad: bytes) -> None:
    with pytest.raises(BadFrameError):
        RedactedFrames(longest=10, echoes=ECHOES).read(bad)


@pytest.mark.parametrize(("echoes", "seen"), [(ECHOES, b"******"), (Echoes(), b"secret")])
def test_only_what_a_server_sends_that_got_a_secret_is_searched(echoes: Echoes, seen: bytes) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(ASKED)
    wire.layer.exchanges[0].echoes = echoes
    wire.server_sends(SWITCHED)
    wire.server_sends(frame(TEXT, b"secret", ends=True))
    wire.client_sends(b"\x82\x86\0\0\0\0secret")
    assert wire.to_client.endswith(b"\r\n\r\n" + frame(TEXT, seen, ends=True))
    assert wire.to_server.endswith(b"secret")
