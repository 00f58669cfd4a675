"""WebSocket, HTTP/2, server-sent events and the answers of odd servers: rows W1-W9, M6 of the attack list."""

import contextlib
import hashlib
import os
import socket
import subprocess
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import hpack
import pytest

from attack_stand import Stand
from capture_server import ok
from http2client import Http2Client, fields
from proxy_stand import get, read_all, read_answer, read_head
from websocket_client import echo, frame, handshake, switch

MIB = 1_048_576


def test_allows_a_websocket_on_an_allowed_path(stand: Stand) -> None:
    stand.allowed.answers["/ws"] = echo
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        assert read_head(stream).startswith(b"HTTP/1.1 101 ")
        for payload in (b"hello", b"once more"):
            stream.sendall(frame(payload, masked=True))
            assert stream.recv(100) == frame(payload, masked=False)
    stand.proxy.line(event="request", decision="allow", path="/ws", status=101)
    line = stand.proxy.line(event="websocket", path="/ws")
    assert (line["bytes_out"], line["bytes_in"]) == (14, 14)


def test_counts_websocket_bytes_without_buffering_them(stand: Stand) -> None:
    size, messages = 65_536, 160
    stand.allowed.answers["/ws"] = swallow
    before = stand.proxy.memory()
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        read_head(stream)
        message = b"\x82\xff" + size.to_bytes(8) + bytes(4 + size)
        for _ in range(messages):
            stream.sendall(message)
        stream.sendall(b"\x88\x80" + bytes(4))
        read_all(stream)
    assert stand.proxy.line(event="websocket", path="/ws")["bytes_out"] == size * messages
    assert stand.proxy.memory() - before < 24 * MIB


def test_a_websocket_on_a_path_without_a_rule_is_denied(stand: Stand) -> None:
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake("/other"))
        assert read_answer(stream)[0] == 403
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("body", [b"Content-Length: 4\r\n\r\nbody", b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"])
def test_denies_a_websocket_handshake_with_a_body(stand: Stand, body: bytes) -> None:
    stand.allowed.answers["/ws"] = echo
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake()[:-2] + body)
        assert read_answer(stream)[0] == 403
    stand.assert_nothing_got_out()
    assert stand.proxy.line(path="/ws")["reason"] == "a WebSocket handshake with a body"


def test_forwards_no_data_after_a_101_that_is_not_websocket(stand: Stand) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        switch(stream)
        stream.sendall(b"SSH-2.0-server\r\n")
        read_all(stream)

    stand.allowed.answers["/ws"] = play
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        read_head(stream)
        stream.sendall(b"SSH-2.0-client\r\n")
        assert b"SSH" not in read_all(stream)
    time.sleep(0.05)
    assert b"SSH" not in bytes(stand.allowed.raw)


def test_an_unsolicited_101_closes_the_connection(stand: Stand) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\nraw bytes")
        read_all(stream)

    stand.allowed.answers["/api/101"] = play
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/api/101", "allowed.test"))
        stream.sendall(b"raw bytes")
        assert read_all(stream) == b""
    assert b"raw bytes" not in bytes(stand.allowed.raw)
    line = stand.proxy.line(path="/api/101")
    assert "switched to a protocol" in line["reason"]


def test_forwards_each_event_as_soon_as_it_is_sent(stand: Stand) -> None:
    go_on = threading.Event()

    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n")
        go_on.wait(30)
        stream.sendall(b"data: 2\n\n")

    stand.allowed.answers["/api/events"] = play
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/api/events", "allowed.test"))
        read_head(stream)
        assert stream.recv(100) == b"data: 1\n\n"
        go_on.set()
        assert read_all(stream) == b"data: 2\n\n"
    assert stand.proxy.line(path="/api/events")["bytes_in"] == 18


def test_forwards_a_large_download_whole_without_buffering_it(stand: Stand) -> None:
    size = 300 * MIB
    block = os.urandom(MIB)

    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _block in range(size // MIB):
            stream.sendall(block)

    stand.allowed_plain.answers["/api/down"] = play
    before, most = stand.proxy.memory(), 0
    digest, received = hashlib.sha256(), 0
    with stand.proxy.connect() as stream:
        stream.sendall(get("http://allowed.test/api/down", "allowed.test"))
        read_head(stream)
        while data := stream.recv(MIB):
            digest.update(data)
            received += len(data)
            most = max(most, stand.proxy.memory())
    assert received == size
    assert digest.digest() == hashlib.sha256(block * (size // MIB)).digest()
    assert most - before < 24 * MIB


def test_removes_alt_svc_and_upgrade_from_responses(stand: Stand) -> None:
    stand.allowed.answers["/api/hints"] = ok(b"x", b'Alt-Svc: h3=":443"', b"Upgrade: h2c", b"X-Kept: yes")
    head = stand.proxy.ask("allowed.test", get("/api/hints", "allowed.test")).lower()
    assert b"alt-svc" not in head
    assert b"upgrade" not in head
    assert b"x-kept: yes" in head


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + ok(b"real"), b"real"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"real"), b"real"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n4\r\nreal\r\n0\r\nX: 1\r\n\r\n",
            b"real",
        ),
    ],
)
def test_handles_interim_responses_and_trailers(stand: Stand, answer: bytes, wanted: bytes) -> None:
    stand.allowed.answers["/api/odd"] = answer
    for _ in range(2):  # the second request shows that no data was left over
        got = stand.proxy.ask("allowed.test", get("/api/odd", "allowed.test"))
        assert got.startswith(b"HTTP/1.1 200 OK")
        assert wanted in got


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 ",
    ],
)
def test_a_malformed_response_is_a_502(stand: Stand, answer: bytes) -> None:
    stand.allowed.answers["/api/broken"] = lambda stream, _: stream.sendall(answer)
    got = stand.proxy.ask("allowed.test", get("/api/broken", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 502 Bad Gateway\r\nx-agent-sandbox: failed")
    assert b"mitmproxy" not in got
    stand.proxy.line(path="/api/broken", status=502)


def test_a_server_that_closes_within_a_response_aborts_it_at_once(stand: Stand) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    stand.allowed.answers["/api/half"] = play
    assert stand.proxy.ask("allowed.test", get("/api/half", "allowed.test")).endswith(b"half")
    assert "aborted" in stand.proxy.line(path="/api/half")["reason"]


def test_every_http2_stream_is_decided(stand: Stand) -> None:
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        sent = [
            (fields(), "200"),
            (fields("/admin"), "403"),
            (fields(authority="evil.test"), "403"),
            (fields("/api/../admin"), "400"),
            (fields("/api/2"), "200"),
            ([*fields("/api/3"), ("host", "allowed.test")], "200"),
            (fields(method="DELETE"), "403"),
            (fields("https://evil.test/"), "400"),
            (fields("*", method="OPTIONS"), "400"),
        ]
        assert [client.status(client.send(*request)) for request, _ in sent] == [status for _, status in sent]
    lines = [request.line for request in stand.allowed.requests]
    assert lines == ["GET /api/x HTTP/1.1", "GET /api/2 HTTP/1.1", "GET /api/3 HTTP/1.1"]
    assert {tuple(request.field("host")) for request in stand.allowed.requests} == {("allowed.test",)}


@pytest.mark.parametrize(
    "request_",
    [
        [*fields(), ("x", "a\r\nb: c")],
        [*fields(), ("x", "a\rb")],
        [*fields(), ("x", "a\nb")],
        [*fields(), ("x", "a\0b")],
        [*fields(), ("transfer-encoding", "chunked")],
        [*fields(), ("transfer_encoding", "chunked")],
        [*fields(), ("content_length", "44")],
        [*fields(), ("connection", "close")],
        [*fields(), ("host", "evil.test")],
        [*fields(), (":path", "/admin")],
        [("x", "y"), *fields()],
        [*fields(), ("X-Upper", "y")],
        [*fields(), (":unknown", "y")],
        [*fields()[:3]],
        fields("/api/x HTTP/1.1\r\nHost: evil.test\r\n\r\nGET /admin"),
        fields(method="GET /admin HTTP/1.1\r\nHost: x\r\n\r\nGET"),
        fields(authority="allowed.test\r\nx: y"),
        fields(authority=""),
        [*fields(method="CONNECT"), (":protocol", "websocket")],
    ],
)
def test_malformed_http2_request_is_not_forwarded(stand: Stand, request_: list[tuple[str, str]]) -> None:
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*request_)) in ("reset", "closed", "400", "403")
    assert stand.proxy.line(decision="deny", host="allowed.test")
    stand.assert_nothing_got_out()


def test_an_http2_body_without_a_length_stays_a_body_on_http1(stand: Stand) -> None:
    smuggled = b"GET /admin HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields(method="POST"), body=smuggled)) == "200"
    assert [request.line for request in stand.allowed.requests] == ["POST /api/x HTTP/1.1"]
    assert smuggled in stand.allowed.requests[0].body


def test_hundreds_of_cancelled_streams_end_the_connection(stand: Stand) -> None:
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        for _ in range(400):
            number = client.h2.get_next_available_stream_id()
            client.h2.send_headers(number, fields("/admin"), end_stream=False)
            client.h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        client.flush()
        assert client.status(0) == "closed"
    stand.proxy.line(event="malformed", reason="too many cancelled streams")
    assert stand.proxy.ask("allowed.test", get("/api/x", "allowed.test")).startswith(b"HTTP/1.1 200")


def test_ten_thousand_streams_at_once_end_the_connection(stand: Stand) -> None:
    before = stand.proxy.memory()
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        Http2Client(stream)
        block = hpack.Encoder().encode(fields("/admin", method="POST"))
        with contextlib.suppress(OSError):
            for number in range(1, 20_000, 2):
                stream.sendall(len(block).to_bytes(3) + b"\1\4" + number.to_bytes(4) + block)
        read_all(stream)  # until the proxy closes it
    assert stand.proxy.memory() - before < 32 * MIB
    assert stand.proxy.ask("allowed.test", get("/api/x", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert stand.evil.connections == 0


def test_curl_gets_the_same_over_http1_and_http2(stand: Stand) -> None:
    curl = ["curl", "-s", "--max-time", "5", "--cacert", stand.proxy.ready["ca"]]
    for version in ("--http1.1", "--http2"):
        done = subprocess.run(
            [*curl, version, "-x", f"http://{stand.proxy.ready['listening']}", "https://allowed.test/api/x"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "GET /api/x HTTP/1.1"


def test_does_not_buffer_a_download_that_the_client_never_reads(stand: Stand) -> None:
    stopped = threading.Event()

    def play(stream: socket.socket, _: bytes) -> None:
        stream.settimeout(1)
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (300 * MIB))
        try:
            for _part in range(300):
                stream.sendall(bytes(MIB))
        except TimeoutError:
            stopped.set()

    stand.allowed.answers["/api/unread"] = play
    before = stand.proxy.memory()
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields("/api/unread"))) == "200"
        assert stopped.wait(30)
        assert stand.proxy.memory() - before < 24 * MIB


def swallow(stream: socket.socket, _: bytes) -> None:
    switch(stream)
    while stream.recv(MIB):
        pass


def test_an_endless_websocket_message_ends_the_connection(stand: Stand) -> None:
    stand.allowed.answers["/ws"] = swallow
    size = b"\xff" + MIB.to_bytes(8) + bytes(4 + MIB)
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        read_head(stream)
        stream.sendall(b"\x02" + size)
        with pytest.raises(OSError, match=r"EOF|reset|pipe"):
            stream.sendall((b"\x00" + size) * 64)
    line = stand.proxy.line(event="websocket", path="/ws")
    assert (line["bytes_out"], line["reason"].partition("; ")[2]) == (
        16 * MIB,
        f"aborted: the client sent a message of more than {16 * MIB} bytes",
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"hello\n",
        b"\r\n" + ok(b"x"),
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"HTTP/1.1 1000 x\r\n\r\n",
        b"HTTP/3.7 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ok(b"x", b"X: a\rSet-Cookie: b"),
        ok(b"x", b"X: a\0b"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_an_ambiguous_or_non_http_response_is_a_502_at_once(stand: Stand, answer: bytes) -> None:
    stand.allowed.answers["/api/none"] = answer
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(b"GET /api/none HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        assert read_answer(stream)[0] == 502
    assert stand.proxy.line(path="/api/none", status=502)["decision"] == "allow"


def test_drops_the_data_after_a_rejected_response_head(stand: Stand) -> None:
    stand.allowed.answers["/api/none"] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: a\rb\r\n\r\nzz\r\n"
    stand.allowed.answers["/api/x"] = ok(b"x")
    with stand.proxy.tls("allowed.test") as stream:
        for path, status in (("none", 502), ("x", 200)):
            stream.sendall(f"GET /api/{path} HTTP/1.1\r\nHost: allowed.test\r\n\r\n".encode())
            assert read_answer(stream)[0] == status
    assert [line for line in stand.proxy.lines if line["event"] == "fault"] == []
