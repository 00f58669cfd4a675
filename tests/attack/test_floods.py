"""Endless input from either side: the proxy does not buffer it all, nor make others wait."""

import contextlib
import random
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from h2.settings import SettingCodes

from agent_sandbox.proxy.secrets.store import put_secret
from capture_server import ok
from changed_limits import limits_with
from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import LITTLE_WORK, MITMPROXY_LOADED, get, read_all, read_answer, read_head
from websocket_client import frame, handshake, switch

MIB = 1_048_576
POLICY = 'version: 1\ndomains: [allowed.test, "*.wild.test"]\n'


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with start_pair(tmp_path_factory.mktemp("floods"), POLICY, sabotage=MITMPROXY_LOADED) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The proxy and its server, with empty records."""
    started.forget()
    return started


def pour(stream: socket.socket, data: bytes, *, most: int = 128 * MIB, seconds: float = 3) -> int:
    """Send the data repeatedly. Return how many bytes were accepted."""
    end, sent = time.monotonic() + seconds, 0
    stream.settimeout(0.2)
    with contextlib.suppress(OSError):
        while time.monotonic() < end and sent < most:
            with contextlib.suppress(TimeoutError):
                sent += stream.send(data)
    return sent


def assert_others_are_served(pair: Pair) -> None:
    """Check that a request on another connection is denied, after little other work."""
    with pair.proxy.little_work():
        assert pair.proxy.say(get("http://evil.test/", "evil.test")).startswith(b"HTTP/1.1 403")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b"X: 0123456789\r\n"
ENDLESS = {
    "a chunk's size": (CHUNKED + b"1;", b"x" * MIB),
    "trailers": (CHUNKED + b"0\r\n", LINE * (MIB // len(LINE))),
    "interim answers": (b"", b"HTTP/1.1 103 Wait\r\n\r\n" * 40_000),
    "a head": (b"HTTP/1.1 200 OK\r\n", LINE * (MIB // len(LINE))),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_cuts_off_endless_response_heads_chunk_sizes_and_trailers(pair: Pair, what: str) -> None:
    begin, more = ENDLESS[what]

    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(begin)
        taken.append(pour(stream, more))
        over.set()

    taken: list[int] = []
    over = threading.Event()
    pair.plain.answers["/endless"] = play
    before = pair.proxy.memory()
    with pair.proxy.connect() as connection:
        connection.sendall(get("http://allowed.test/endless", "allowed.test"))
        assert_others_are_served(pair)
        read_all(connection)
        assert over.wait(30)
    assert (taken[0] < 32 * MIB, pair.proxy.memory() - before < 16 * MIB) == (True, True)
    pair.proxy.line(path="/endless", decision="allow")


def test_stops_reading_from_the_client_while_its_response_is_pending(pair: Pair) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        go_on.wait(60)
        stream.sendall(ok(b"late"))

    go_on = threading.Event()
    pair.plain.answers["/slow"] = play
    before = pair.proxy.memory()
    with pair.proxy.connect() as connection:
        connection.sendall(b"GET http://allowed.test/slow HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        taken = pour(connection, b"x" * MIB, seconds=1.5)
        assert_others_are_served(pair)
        # The kernel of each side buffers some MiB, too.
        assert (taken < 64 * MIB, pair.proxy.memory() - before < 8 * MIB) == (True, True)
        go_on.set()
        connection.settimeout(30)
        assert read_answer(connection) == (200, b"late")


@pytest.mark.parametrize("connections", [1, 2])
def test_endless_http2_frames_do_not_delay_other_clients(tmp_path: Path, connections: int) -> None:
    padding = b"\0\0\3\0\x08\0\0\0\1" + b"\1x\0"
    with contextlib.ExitStack() as stack:
        pair = stack.enter_context(start_pair(tmp_path, POLICY))
        pair.server.answers["/slow"] = lambda connection, _: swallow(connection)
        pouring = []
        for _ in range(connections):
            stream = stack.enter_context(pair.proxy.tls("allowed.test", alpn=("h2",)))
            client = Http2Client(stream)
            client.h2.send_headers(1, fields("/slow", method="POST"))
            client.flush()
            pouring += [threading.Thread(target=pour, args=(stream, padding * 50_000), kwargs={"seconds": 4})]
            pouring[-1].start()
        while any(one.is_alive() for one in pouring):
            assert_others_are_served(pair)


def test_varying_headers_and_a_huge_hpack_table_do_not_slow_responses(pair: Pair) -> None:
    count = iter(range(1_000))

    def play(stream: socket.socket, _: bytes) -> None:
        first = next(count)
        varying = b"".join(b"X-%d-%d: x\r\n" % (first, number) for number in range(1_000))
        stream.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n" + varying + b"\r\n")

    pair.server.answers["/varying"] = play
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        client.h2.decoder.max_allowed_table_size = 2**31
        client.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**31 - 1})
        for number in range(40):
            before = pair.proxy.work()
            assert client.status(client.send(*fields("/varying"))) == "204"
            assert (number, pair.proxy.work() - before < LITTLE_WORK) == (number, True)


def test_endless_websocket_frames_do_not_delay_other_clients(pair: Pair) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        switch(stream)
        pour(stream, frame(b"", masked=False) * 100_000)

    pair.plain.answers["/ws"] = play
    with pair.proxy.connect() as stream:
        stream.sendall(handshake("http://allowed.test/ws"))
        read_head(stream)
        pouring = threading.Thread(target=pour, args=(stream, frame(b"", masked=True) * 100_000))
        reading = threading.Thread(target=swallow, args=(stream,))
        pouring.start()
        reading.start()
        while pouring.is_alive():
            assert_others_are_served(pair)
    reading.join()


def test_websocket_messages_are_not_buffered_whole(pair: Pair) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        switch(stream)
        swallow(stream)

    pair.plain.answers["/ws"] = play
    before = pair.proxy.memory()
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stream = stack.enter_context(pair.proxy.connect())
            stream.sendall(handshake("http://allowed.test/ws"))
            read_head(stream)
            stream.sendall(b"\x02\xff" + (12 * MIB).to_bytes(8) + bytes(4 + 12 * MIB))
        assert pair.proxy.memory() - before < 16 * MIB


def test_a_long_response_header_over_http2_does_not_delay_other_clients(pair: Pair) -> None:
    pair.server.answers["/long"] = ok(b"x", b"X: " + b"y" * 250_000)
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        client.h2.decoder.max_header_list_size = MIB
        assert client.status(client.send(*fields("/long"))) == "200"
        assert_others_are_served(pair)


BOTH_VERSIONS = pytest.mark.parametrize("alpn", [(), ("h2",)])


def growth_while_unread(pair: Pair, alpn: tuple[str, ...], *, clients: int) -> int:
    """Return by how many bytes the proxy grows while clients request `/large` and read nothing."""
    before = pair.proxy.memory()
    with contextlib.ExitStack() as stack:
        for _ in range(clients):
            stream = stack.enter_context(pair.proxy.tls("allowed.test", alpn=alpn))
            if alpn:
                Http2Client(stream).send(*fields("/large"))
            else:
                stream.sendall(get("/large", "allowed.test"))
        time.sleep(2)
        growth = pair.proxy.memory() - before
        assert_others_are_served(pair)
    return growth


@BOTH_VERSIONS
def test_unread_downloads_of_many_clients_stay_within_a_memory_bound(tmp_path: Path, alpn: tuple[str, ...]) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
        pour(stream, bytes(MIB), most=64 * MIB, seconds=2)

    with start_pair(tmp_path, POLICY, sabotage=limits_with(crowd=8) + MITMPROXY_LOADED) as pair:
        pair.server.answers["/large"] = play
        assert growth_while_unread(pair, alpn, clients=48) < 56 * MIB


@BOTH_VERSIONS
def test_unread_compressed_downloads_that_are_searched_stay_within_a_memory_bound(
    tmp_path: Path, alpn: tuple[str, ...]
) -> None:
    rows = b"".join(random.Random(number).randbytes(60) + bytes(4_500) for number in range(20_000))  # noqa: S311 - no secret
    packed = zlib.compress(rows)
    assert 60 < len(rows) / len(packed) < 100
    (tmp_path / "state" / "secrets").mkdir(parents=True)
    put_secret(tmp_path / "state" / "secrets", "token", ["allowed.test"], b"value-of-the-secret")
    key = "{secret: token, transform: {type: raw}}"
    policy = f"version: 1\ndomains: [{{host: allowed.test, transform: {{request: {{headers: {{X-Key: {key}}}}}}}}}]\n"
    with start_pair(tmp_path, policy, sabotage=MITMPROXY_LOADED) as pair:
        pair.server.answers["/large"] = ok(packed, b"Content-Encoding: deflate")
        assert growth_while_unread(pair, alpn, clients=160) < (448 if alpn else 288) * MIB


def swallow(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while stream.recv(MIB):
            pass


def frame_of_http2(kind: int, flags: int, data: bytes) -> bytes:
    """Return a frame of the first stream."""
    return len(data).to_bytes(3) + bytes((kind, flags)) + (1).to_bytes(4) + data


def test_floods_of_hpack_table_sizes_do_not_delay_other_clients(pair: Pair) -> None:
    headers, continuation, end_headers = 1, 9, 4
    most = b" " * 16_384  # each byte sets the size of the table to 0
    begun = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame_of_http2(4, 0, b"")[:5] + bytes(4)
    begun += frame_of_http2(headers, 0, most) + 62 * frame_of_http2(continuation, 0, most)
    with contextlib.ExitStack() as open_ones:
        streams = [open_ones.enter_context(pair.proxy.tls("allowed.test", alpn=("h2",))) for _ in range(20)]
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.sendall(begun)
        time.sleep(1)
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.sendall(frame_of_http2(continuation, end_headers, most))
        assert_others_are_served(pair)


def test_limits_the_header_memory_of_concurrent_http2_requests(pair: Pair) -> None:
    pair.server.answers["/api/x"] = lambda *_: time.sleep(3)
    big = [*fields(), *[("x-same", "y" * 3_900)] * 15]
    with contextlib.ExitStack() as open_ones:
        clients = [
            Http2Client(open_ones.enter_context(pair.proxy.tls("allowed.test", alpn=("h2",)))) for _ in range(10)
        ]
        before = pair.proxy.memory()
        for client in clients:
            with contextlib.suppress(OSError):
                for _ in range(100):
                    client.send(*big)
        time.sleep(1)
        assert pair.proxy.memory() - before < 40 * MIB
    reason = "too many header fields in the requests under way"
    assert pair.proxy.line(event="malformed")["reason"] == reason
