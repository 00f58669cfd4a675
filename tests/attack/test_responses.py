"""Responses that two programs could read differently: rows M70-M77 of the attack list."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable

import pytest

from attack_stand import Stand
from capture_server import ok
from proxy_stand import get, read_all, read_answer, read_head
from response_shapes import ACCEPTED, FORGED, REJECTED

ASK = b"GET /api/%s HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: allowed.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize("name", REJECTED)
def test_malformed_response_is_a_502_and_its_server_connection_is_not_reused(stand: Stand, name: str) -> None:
    data, problem = REJECTED[name]
    stand.allowed.answers |= {"/api/bad": data, "/api/good": ok(b"good")}
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(ASK % b"bad")
        status, page = read_answer(stream)
        assert (status, b"bad-head" in page, b"orged" in page) == (502, False, False)
        assert json.loads(page)["reason"] == f"malformed response from the server: {problem}"
        # The bytes after the head are dropped, and the next request gets a new connection.
        stream.sendall(ASK % b"good")
        assert read_answer(stream) == (200, b"good")
    bad, good = stand.allowed.requests
    assert bad.client != good.client
    line = stand.proxy.line(path="/api/bad", status=502)
    assert line["reason"] == f"malformed response from the server: {problem}"


@pytest.mark.parametrize("name", ACCEPTED)
def test_forwards_odd_responses_that_real_servers_send(stand: Stand, name: str) -> None:
    data, wanted = ACCEPTED[name]

    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(data)

    stand.allowed.answers["/api/odd"] = play
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(ASK % b"odd")
        got = read_head(stream)
        assert got == wanted.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        body = wanted[len(got) :]
        read = b""
        while len(read) < len(body):
            read += stream.recv(len(body) - len(read))
        assert read == body


@pytest.mark.parametrize("name", [name for name, (data, _) in REJECTED.items() if len(data) < 150])
def test_malformed_response_is_a_502_however_it_is_split(stand: Stand, name: str) -> None:
    data, _ = REJECTED[name]

    def play(stream: socket.socket, _: bytes) -> None:
        with contextlib.suppress(OSError):
            for byte in data:
                stream.sendall(bytes([byte]))

    stand.allowed.answers["/api/slow"] = play
    got = stand.proxy.ask("allowed.test", get("/api/slow", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 502 ")
    assert (b"bad-head" in got, b"orged" in got) == (False, False)


def together(stream: socket.socket, _: bytes) -> None:
    stream.sendall(ok(b"first") + FORGED)
    read_all(stream)


def later(stream: socket.socket, _: bytes) -> None:
    stream.sendall(ok(b"first"))
    time.sleep(0.1)
    with contextlib.suppress(OSError):
        stream.sendall(FORGED)
    read_all(stream)


def bodiless(stream: socket.socket, _: bytes) -> None:
    stream.sendall(b"HTTP/1.1 204 No Content\r\nContent-Length: %d\r\n\r\n" % len(FORGED) + FORGED)
    read_all(stream)


@pytest.mark.parametrize(
    ("play", "first"), [(together, (200, b"first")), (later, (200, b"first")), (bodiless, (204, b""))]
)
def test_unsolicited_response_does_not_answer_a_later_request(
    stand: Stand, play: Callable[[socket.socket, bytes], None], first: tuple[int, bytes]
) -> None:
    stand.allowed.answers |= {"/api/two": play, "/api/good": ok(b"good")}
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(ASK % b"two")
        assert read_answer(stream) == first
        time.sleep(0.2)
        stream.sendall(ASK % b"good")
        assert read_answer(stream) == (200, b"good")
    two, good = stand.allowed.requests
    assert two.client != good.client


def test_response_sent_before_any_request_does_not_answer_a_later_request(stand: Stand) -> None:
    stand.allowed.greeting = FORGED
    try:
        stand.proxy.ask("allowed.test", get("/api/x", "allowed.test"))
    finally:
        stand.allowed.greeting = b""
    assert b"orged" not in stand.proxy.ask("allowed.test", get("/api/x", "allowed.test"))


@pytest.mark.parametrize(
    "switched",
    [
        SWITCHED + b"\r\n" + FORGED,
        SWITCHED + b"Content-Length: 100\r\n\r\n" + FORGED,
        SWITCHED + b"Transfer-Encoding: chunked\r\n\r\n" + FORGED,
        SWITCHED + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + FORGED,
        SWITCHED + b"X: y\r\n folded\r\n\r\n" + FORGED,
    ],
)
def test_drops_data_after_a_101_that_is_not_a_websocket_frame(stand: Stand, switched: bytes) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(switched)
        read_all(stream)

    stand.allowed.answers["/ws"] = play
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(HANDSHAKE)
        head = read_head(stream)
        # After our own error page, the connection stays open for another request.
        rest = b"" if head.startswith(b"HTTP/1.1 502 ") else read_all(stream)
    assert b"orged" not in head + rest
    assert b"content-length: 1" not in head.lower() or head.startswith(b"HTTP/1.1 502 ")


def test_endless_interim_responses_are_a_502_and_do_not_block_other_requests(stand: Stand) -> None:
    over = threading.Event()

    def play(stream: socket.socket, _: bytes) -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)

    stand.allowed.answers |= {"/api/flood": play, "/api/good": ok(b"good")}
    before = stand.proxy.memory()
    try:
        assert stand.proxy.ask("allowed.test", get("/api/flood", "allowed.test")).startswith(b"HTTP/1.1 502 ")
        assert stand.proxy.ask("allowed.test", get("/api/good", "allowed.test")).endswith(b"good")
        assert stand.proxy.memory() - before < 16 * 1_048_576
    finally:
        over.set()


def test_server_that_closes_within_its_response_head_is_a_502_without_that_head(stand: Stand) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nX-Mark: bad-head\r\nX-For")

    stand.allowed.answers["/api/half"] = play
    got = stand.proxy.ask("allowed.test", get("/api/half", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"bad-head" not in got
    reason = stand.proxy.line(path="/api/half", status=502)["reason"]
    assert reason == "the server closed the connection before the end of its response head"
