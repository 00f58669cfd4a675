"""`max_body` and `headers` of the policy, with every framing of a body."""

import json
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import ProxyProcess, get, read_all, read_answer, read_head
from websocket_client import echo, frame, handshake

POLICY = """\
version: 1
domains:
  - host: allowed.test
    rules:
      - {methods: [POST], path: {prefix: /small/}, max_body: 100}
      - {methods: [GET], path: {exact: /ws}, max_body: 100}
      - {methods: [POST], path: {prefix: /json/}, headers: {content-type: application/json, x-kind: good}}
"""
CHUNKED = "Transfer-Encoding: chunked"
LARGE = b"40\r\n" + bytes(0x40) + b"\r\n"  # two of them exceed the limit


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy whose policy bounds bodies."""
    with start_pair(tmp_path_factory.mktemp("bodies"), POLICY) as pair:
        pair.server.answers["/ws"] = echo
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with empty records."""
    started.forget()
    return started


@pytest.fixture
def proxy(pair: Pair) -> ProxyProcess:
    """The proxy."""
    return pair.proxy


def assert_one_line(proxy: ProxyProcess, *, status: int, path: str = "/small/x") -> None:
    line = proxy.line(path=path)
    assert (line["decision"], line["status"]) == ("deny", status)
    assert [other["path"] for other in proxy.lines].count(path) == 1


@pytest.mark.parametrize("pieces", [[LARGE + LARGE], [LARGE, LARGE], [LARGE[:-1], LARGE[-1:] + b"4", LARGE[1:]]])
def test_an_oversized_chunked_body_is_cut_and_its_server_connection_reset(pair: Pair, pieces: list[bytes]) -> None:
    begun, ends = threading.Event(), queue.SimpleQueue[str]()
    got = bytearray()

    def listen(stream: socket.socket, data: bytes) -> None:
        got.extend(data)
        begun.set()
        try:
            while data := stream.recv(65536):
                got.extend(data)
            ends.put("closed")
        except OSError as error:
            ends.put(type(error).__name__)

    pair.server.answers["/small/x"] = listen
    with pair.proxy.connect() as connection:
        connection.sendall(get("http://allowed.test/small/x", "allowed.test", CHUNKED, method="POST") + b"1\r\n\0\r\n")
        assert begun.wait(30)
        for piece in pieces:
            connection.sendall(piece)
        status, body = read_answer(connection)
    del pair.server.answers["/small/x"]
    assert status == 413
    assert json.loads(body)["reason"] == "the body is larger than the 100 bytes that policy.yaml:5 allows"
    assert ends.get(timeout=30) == "ConnectionResetError"
    assert got.count(0) <= 100
    assert not got.endswith(b"0\r\n\r\n")
    assert_one_line(pair.proxy, status=413)


def test_denies_an_oversized_content_length_without_connecting_to_the_server(pair: Pair) -> None:
    request = get("/small/x", "allowed.test", "Content-Length: 101", "Expect: 100-continue", method="POST")
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(request)
        assert read_answer(stream)[0] == 403
    assert_one_line(pair.proxy, status=403)
    assert pair.server.connections == 0


def test_expect_continue_gets_100_and_then_413_for_an_oversized_body(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test") as stream:
        stream.sendall(get("/small/x", "allowed.test", CHUNKED, "Expect: 100-continue", method="POST"))
        assert read_head(stream).startswith(b"HTTP/1.1 100 ")
        stream.sendall(LARGE + LARGE)
        assert read_head(stream).startswith(b"HTTP/1.1 413 ")
    assert_one_line(proxy, status=413)


def test_serves_the_next_request_on_the_connection_after_a_413(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        head = get("/small/x", "allowed.test", CHUNKED, method="POST").replace(b"Connection: close\r\n", b"")
        stream.sendall(head + LARGE + LARGE + b"0\r\n\r\n")
        stream.sendall(get("/small/y", "allowed.test", "Content-Length: 5", method="POST") + b"hello")
        answers = read_all(stream)
    assert [answers.count(b"HTTP/1.1 %d " % status) for status in (413, 200)] == [1, 1]
    assert [(one.line, one.body) for one in pair.server.requests if one.body] == [
        ("POST /small/y HTTP/1.1", b"hello"),
    ]


def test_max_body_limits_http2_bodies(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        number = client.send(*fields("/small/x", method="POST"), body=bytes(101))
        assert client.status(number) == "413"
        assert client.status(client.send(*fields("/small/y", method="POST"), body=b"hello")) == "200"
    assert_one_line(pair.proxy, status=413)
    assert "POST /small/x HTTP/1.1" not in [one.line for one in pair.server.requests if one.body]


def test_websocket_messages_do_not_count_towards_max_body(proxy: ProxyProcess) -> None:
    with proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        assert b" 101 " in read_head(stream)
        for _ in range(3):
            stream.sendall(frame(bytes(100), masked=True))
            assert stream.recv(1000).endswith(bytes(100))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (["Content-Type: application/json; charset=utf-8", "X-Kind: good"], b"200"),
        (["content-type: Application/JSON", "x-KIND: good", "X-Kind: good"], b"200"),
        (["Content-Type: application/json", "X-Kind: good", "X-Kind: bad"], b"403"),
        (["Content-Type: application/json", "Content-Type: text/plain", "X-Kind: good"], b"403"),
        (["Content-Type: application/json", "X-Kind: Good"], b"403"),
        (["X-Kind: good"], b"403"),
    ],
)
def test_header_condition_must_match_every_field_with_that_name(pair: Pair, sent: list[str], status: bytes) -> None:
    request = get("/json/x", "allowed.test", *sent, "Content-Length: 2", method="POST") + b"{}"
    assert pair.proxy.ask("allowed.test", request).startswith(b"HTTP/1.1 " + status)
    assert pair.server.connections == (status == b"200")


def test_forwards_checked_headers_that_the_connection_header_names(pair: Pair) -> None:
    sent = ["Content-Type: application/json", "X-Kind: good", "Connection: x-kind, content-type", "Content-Length: 2"]
    lines = ["POST /json/x HTTP/1.1", "Host: allowed.test", *sent]
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(("\r\n".join(lines) + "\r\n\r\n{}").encode())
        assert read_head(stream).startswith(b"HTTP/1.1 200")
    (got,) = pair.server.requests
    assert (got.field("x-kind"), got.field("content-type"), got.field("connection")) == (
        ["good"],
        ["application/json"],
        [],
    )


@pytest.mark.parametrize(("kinds", "status"), [(["good"], "200"), (["good", "bad"], "403"), ([], "403")])
def test_header_conditions_apply_to_http2(proxy: ProxyProcess, kinds: list[str], status: str) -> None:
    sent = [("content-type", "application/json"), *(("x-kind", kind) for kind in kinds)]
    with proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields("/json/x", method="POST"), *sent, body=b"{}")) == status
