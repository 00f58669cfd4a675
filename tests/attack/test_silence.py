"""Only silence ends a long connection: row W7, with a shortened idle limit."""

import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from agent_sandbox.proxy.limits import Limits
from changed_limits import limits_with
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_all, read_head
from websocket_client import frame, handshake, switch

IDLE, EVENTS, PAUSE = 2.0, 8, 0.4
POLICY = "version: 1\ndomains: [allowed.test, {host: a.wild.test, inspect: false}]\n"
SHORT = limits_with(idle_seconds=IDLE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def speak(stream: socket.socket, _: bytes) -> None:
    """Send events with pauses, as a model does while it thinks."""
    stream.sendall(HEAD)
    for number in range(EVENTS):
        time.sleep(PAUSE)
        stream.sendall(b"data: %d\n\n" % number)


def fall_silent(stream: socket.socket, _: bytes) -> None:
    stream.sendall(HEAD + b"data: 0\n\n")
    read_all(stream)


def chat(stream: socket.socket, _: bytes) -> None:
    switch(stream)
    for number in range(EVENTS):
        time.sleep(PAUSE)
        stream.sendall(frame(b"%d" % number, masked=False))
    stream.sendall(b"\x88\x00")
    read_all(stream)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy with a short idle limit."""
    with start_pair(tmp_path_factory.mktemp("silence"), POLICY, sabotage=SHORT) as pair:
        pair.server.answers |= {"/speak": speak, "/silent": fall_silent, "/ws": chat}
        yield pair


def opened(pair: Pair, host: str) -> ssl.SSLContext:
    """Return a context that trusts the proxy, or the server of a passthrough host."""
    return ssl.create_default_context(
        cafile=pair.proxy.ready["ca"] if host == "allowed.test" else pair.proxy.upstream_ca
    )


@pytest.mark.parametrize("host", ["allowed.test", "a.wild.test"])
def test_closes_a_silent_stream_but_not_one_that_sends_now_and_then(pair: Pair, host: str) -> None:
    assert EVENTS * PAUSE > 1.5 * IDLE
    for path, wanted in (("/speak", EVENTS), ("/silent", 1)):
        with (
            pair.proxy.tunnel(host) as connection,
            opened(pair, host).wrap_socket(connection, server_hostname=host) as stream,
        ):
            stream.sendall(get(path, host))
            read_head(stream)
            assert read_all(stream).count(b"data: ") == wanted


def test_keeps_a_websocket_open_that_sends_now_and_then(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        assert read_head(stream).startswith(b"HTTP/1.1 101 ")
        assert read_all(stream).count(b"\x82\x01") == EVENTS


def test_the_idle_limit_is_ten_minutes() -> None:
    assert Limits().idle_seconds == 600
