"""Under hostile load and failures, the proxy fails closed, serves others, and its memory stays bounded."""

import contextlib
import gzip
import os
import signal
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from agent_sandbox.proxy.limits import Limits
from capture_server import ok
from changed_limits import limits_with
from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import MITMPROXY_LOADED, get, read_all, read_answer, read_head
from websocket_client import handshake, switch

MIB = 1_048_576
POLICY = 'version: 1\ndomains: [allowed.test, "*.wild.test"]\n'
# Duration of a thousand denials per second: five seconds, or a minute.
TENTHS = 600 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 50
RESET = struct.pack("ii", 1, 0)
# Short time limits, and a switch for each failure: a file of that name in the parent of the state directory.
SABOTAGE = (
    limits_with(head_seconds=5.0, resolve_seconds=2.0)
    + """
import asyncio, errno, os, pathlib, sys, time
from agent_sandbox.proxy.audit import rotating_file
from agent_sandbox.proxy.upstream import dialler
folder = pathlib.Path(sys.argv[2].partition("=")[2]).parent
write_all, getaddrinfo, connect = rotating_file.write_all, dialler.socket.getaddrinfo, dialler.connect
def write(descriptor, data):
    if (folder / "full").exists() and descriptor != sys.stdout.fileno():
        raise OSError(errno.ENOSPC, "No space left on device")
    write_all(descriptor, data)
def resolve(host, port, **more):
    while (folder / "silent").exists():
        time.sleep(0.05)
    if (folder / "down").exists():
        raise dialler.socket.gaierror(-3, "Temporary failure in name resolution")
    return [(0, 0, 0, "", ("203.0.113.139", port))]
async def slowly(address, port):
    if address == "127.0.0.1":
        return await connect(address, port)
    if (folder / "slow").exists():
        await asyncio.sleep(1)
    return await connect("127.0.0.1", int((folder / "port").read_text()))
rotating_file.write_all, dialler.socket.getaddrinfo = write, resolve
dialler.Dialler.__init__.__kwdefaults__.update(connect=slowly)
"""
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy with switches for failures."""
    folder = tmp_path_factory.mktemp("endurance")
    with start_pair(folder, POLICY, sabotage=SABOTAGE + MITMPROXY_LOADED) as pair:
        (folder / "port").write_text(str(pair.plain.port))
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with empty records and no failure."""
    started.forget()
    return started


@contextlib.contextmanager
def wrong(pair: Pair, what: str) -> Iterator[None]:
    """Switch a failure on for a while."""
    switch_ = pair.proxy.folder / what
    switch_.touch()
    try:
        yield
    finally:
        switch_.unlink()


def assert_well(pair: Pair) -> None:
    """Check that other requests are allowed or denied as usual, after little other work."""
    with pair.proxy.little_work():
        assert pair.proxy.ask("allowed.test", get("/x", "allowed.test")).startswith(b"HTTP/1.1 200")
        assert pair.proxy.say(get("http://evil.test/", "evil.test")).startswith(b"HTTP/1.1 403")


def other(number: int, path: str = "/x") -> bytes:
    host = f"n{number}.wild.test"
    return get(f"http://{host}{path}", host)


def test_five_thousand_idle_connections_do_not_delay_other_clients(pair: Pair) -> None:
    before = pair.proxy.memory()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(pair.proxy.connect()) for _ in range(5_000)]
        for connection in connections:
            connection.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n")
        assert read_head(connections[-1]).startswith(b"HTTP/1.1 200")  # all are idle now
        assert_well(pair)
        assert pair.proxy.ask_control("status")["connections"] <= 1_024
        assert pair.proxy.memory() - before < 64 * MIB


def test_a_client_connection_to_hundreds_of_hosts_keeps_few_server_connections(pair: Pair) -> None:
    files = Path(f"/proc/{pair.proxy.process.pid}/fd")
    before, most = len([*files.iterdir()]), 0
    with pair.proxy.connect() as connection:
        for number in range(200):
            connection.sendall(other(number).replace(b"Connection: close\r\n", b""))
            assert read_answer(connection)[0] == 200
            most = max(most, len([*files.iterdir()]))
    assert (most - before < 20 + Limits().pool_connections, pair.plain.connections) == (True, 200)


def test_unfinished_request_heads_time_out_with_408(pair: Pair) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(pair.proxy.connect()) for _ in range(1_000)]
        for beginning in (b"GET http://allowed.test/ HTTP/1.1\r\n", b"Host: allowed.test\r\n", b"X: y\r\n"):
            for connection in slow:
                connection.sendall(beginning)
            time.sleep(0.2)
        assert_well(pair)
        assert all(b" 408 " in read_all(connection) for connection in slow)


def test_trickling_request_bodies_do_not_delay_other_clients(pair: Pair) -> None:
    before = pair.proxy.memory()
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(pair.proxy.connect()) for _ in range(100)]
        for connection in slow:
            connection.sendall(get("http://allowed.test/up", "allowed.test", "Content-Length: 1000", method="POST"))
        for _ in range(5):
            for connection in slow:
                connection.sendall(b"x")
            assert_well(pair)
        assert pair.proxy.memory() - before < 32 * MIB


def test_an_upload_is_not_buffered_while_the_proxy_connects_to_a_slow_server(pair: Pair) -> None:
    def swallow(stream: socket.socket, data: bytes) -> None:
        size = len(data)
        while size < 64 * MIB:
            size += len(stream.recv(MIB))
        stream.sendall(ok(b"whole"))

    pair.server.answers["/swallow"] = swallow
    before, most = pair.proxy.memory(), 0
    with wrong(pair, "slow"), pair.proxy.connect() as connection:
        head = get("http://n1.wild.test/swallow", "n1.wild.test", f"Content-Length: {64 * MIB}", method="POST")
        connection.sendall(head)
        sending = threading.Thread(target=connection.sendall, args=(bytes(64 * MIB),), daemon=True)
        sending.start()
        while sending.is_alive():
            most = max(most, pair.proxy.memory())
            time.sleep(0.02)
        assert read_answer(connection) == (200, b"whole")
    assert most - before < 24 * MIB


def test_silent_name_servers_do_not_delay_a_reload_or_known_hosts(pair: Pair) -> None:
    with wrong(pair, "silent"), contextlib.ExitStack() as stack:
        for number in range(200):
            stack.enter_context(pair.proxy.connect()).sendall(other(number))
        with pair.proxy.little_work():
            assert pair.proxy.ask_control("reload")["ok"] is True
        assert_well(pair)
        assert pair.proxy.say(other(201)).startswith(b"HTTP/1.1 502")
    assert "did not resolve within" in pair.proxy.line(host="n201.wild.test")["reason"]
    numbers = iter(range(202, 232))  # the threads that asked need a moment to end
    while not pair.proxy.say(other(next(numbers))).startswith(b"HTTP/1.1 200"):
        pass


def test_reports_a_resolver_failure_and_recovers(pair: Pair) -> None:
    with wrong(pair, "down"):
        assert b"n1.wild.test does not resolve: Temporary failure in name resolution" in pair.proxy.say(other(1))
        assert_well(pair)
    assert pair.proxy.say(other(1)).startswith(b"HTTP/1.1 200")


def log_state(pair: Pair, *, error: str) -> dict[str, Any]:
    """Wait until `status` reports this error of the log, and return what it reports about the log."""
    end = time.monotonic() + 30
    while (log := pair.proxy.ask_control("status")["log"])["error"] != error and time.monotonic() < end:
        time.sleep(0.02)
    assert log["error"] == error
    return dict(log)


def test_a_full_log_volume_is_reported_and_requests_are_still_decided(pair: Pair) -> None:
    with wrong(pair, "full"):
        assert_well(pair)
        pair.proxy.line(host="evil.test", decision="deny")  # on stdout
        log = log_state(pair, error="[Errno 28] No space left on device")
        assert log["dropped"] > 0
    pair.proxy.forget()
    assert_well(pair)
    log_state(pair, error="")


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a link to nowhere", "nothing"])
def test_an_unreadable_policy_leaves_the_last_good_one_in_force(pair: Pair, kind: str) -> None:
    file = pair.proxy.policy_file
    text = file.read_text()
    file.unlink()
    if kind == "a directory":
        file.mkdir()
    elif kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a link to nowhere":
        file.symlink_to("nowhere")
    try:
        refused = pair.proxy.ask_control("reload")
        assert (refused["ok"], "policy.yaml" in refused["problems"][0]) == (False, True)
        assert_well(pair)
    finally:
        file.rmdir() if kind == "a directory" else file.unlink(missing_ok=True)
        file.write_text(text)
    assert pair.proxy.ask_control("reload")["ok"] is True


def test_reports_a_server_reset_during_a_response_or_an_upload(pair: Pair) -> None:
    def reset(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def refuse(stream: socket.socket, _: bytes) -> None:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    pair.server.answers |= {"/reset": reset, "/refuse": refuse}
    assert pair.proxy.say(get("http://allowed.test/reset", "allowed.test")).endswith(b"half")
    assert "aborted" in pair.proxy.line(path="/reset")["reason"]
    request = get("http://allowed.test/refuse", "allowed.test", "Content-Length: 1000", method="POST")
    assert pair.proxy.say(request + bytes(1000)).startswith(b"HTTP/1.1 502")
    assert_well(pair)


PACK = {
    "gzip": gzip.compress,
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("packing", PACK)
def test_forwards_compressed_bombs_without_decompressing_them(pair: Pair, packing: str) -> None:
    bomb = PACK[packing](bytes(64 * MIB))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {packing}\r\nContent-Length: {len(bomb)}\r\n\r\n"
    pair.server.answers["/bomb"] = head.encode() + bomb
    before = pair.proxy.memory()
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/bomb", "allowed.test"))
        assert read_answer(stream) == (200, bomb)
    framing = (f"Content-Encoding: {packing}", f"Content-Length: {len(bomb)}")
    request = get("http://allowed.test/up", "allowed.test", *framing, method="POST")
    assert pair.proxy.say(request + bomb).startswith(b"HTTP/1.1 200")
    assert pair.plain.requests[-1].body == bomb
    assert pair.proxy.memory() - before < 16 * MIB


def test_does_not_negotiate_websocket_compression(pair: Pair) -> None:
    def play(stream: socket.socket, _: bytes) -> None:
        switch(stream)
        packed = zlib.compressobj(wbits=-15)
        bomb = packed.compress(bytes(64 * MIB)) + packed.flush(zlib.Z_SYNC_FLUSH)
        bomb = bomb.removesuffix(b"\0\0\xff\xff")
        with contextlib.suppress(OSError):
            stream.sendall(b"\xc2\x7f" + len(bomb).to_bytes(8) + bomb)
            read_all(stream)

    pair.server.answers["/ws"] = play
    before = pair.proxy.memory()
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake()[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
        assert b"sec-websocket-extensions" not in read_head(stream).lower()
        assert len(read_all(stream)) < MIB
    assert pair.server.requests[0].field("sec-websocket-extensions") == []
    assert pair.proxy.memory() - before < 16 * MIB
    assert_well(pair)


HEADERS_WITHOUT_END = b"\0\0\4\1\0\0\0\0\1" + b"\x82\x84\x87\x41"
FLOODS = {
    "continuation": HEADERS_WITHOUT_END + b"\0\0\1\x09\0\0\0\0\1\x82" * 20_000,
    "ping": (b"\0\0\x08\6\0\0\0\0\0" + bytes(8)) * 20_000,
    "settings": b"\0\0\0\4\0\0\0\0\0" * 20_000,
    "priority": b"\0\0\5\2\0\0\0\0\1\0\0\0\0\x10" * 20_000,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_http2_frames_does_not_delay_others_or_exhaust_memory(pair: Pair, flood: str) -> None:
    before = pair.proxy.memory()
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        Http2Client(stream)
        with contextlib.suppress(OSError):
            stream.sendall(FLOODS[flood])
        assert_well(pair)
        assert pair.proxy.memory() - before < 32 * MIB


def test_rejects_hpack_bombs(pair: Pair) -> None:
    before = pair.proxy.memory()
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        bomb = [("x", "y" * 4_000)] * 2_000
        with contextlib.suppress(OSError):
            assert client.status(client.send(*fields("/x"), *bomb)) in ("reset", "closed", "431", "400")
    assert (bytes(pair.server.raw), pair.proxy.memory() - before < 32 * MIB) == (b"", True)


def test_thousands_of_denials_are_recorded_in_bounded_memory(pair: Pair) -> None:
    before = pair.proxy.memory()
    asked = b"GET http://evil.test/%s HTTP/1.1\r\nHost: evil.test\r\n\r\n" % (b"x" * 100)
    with pair.proxy.connect() as connection:
        started = time.monotonic()
        for tenth in range(TENTHS):
            connection.sendall(asked * 100)
            for _answer in range(100):
                assert read_answer(connection)[0] == 403
            time.sleep(max(0, started + tenth / 10 - time.monotonic()))
        assert_well(pair)
    end, expected = time.monotonic() + 30, TENTHS * 100
    while sum(line["host"] == "evil.test" for line in pair.proxy.lines) < expected and time.monotonic() < end:
        time.sleep(0.05)
    dropped = pair.proxy.ask_control("status")["log"]["dropped"]
    assert sum(line["host"] == "evil.test" for line in pair.proxy.lines) + dropped >= expected
    assert pair.proxy.memory() - before < 32 * MIB


def test_thousands_of_pipelined_requests_do_not_delay_other_clients(pair: Pair) -> None:
    with pair.proxy.connect() as connection:
        asked = b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n" * 20_000
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            connection.sendall(asked)
        assert_well(pair)


def test_a_paused_proxy_forwards_nothing_and_continues_when_resumed(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as kept:
        kept.sendall(b"GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        assert read_answer(kept)[0] == 200
        pair.server.forget()
        pair.proxy.process.send_signal(signal.SIGSTOP)
        try:
            kept.sendall(b"GET /2 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
            kept.settimeout(0.5)
            with pytest.raises(TimeoutError):
                kept.recv(1)
            assert (bytes(pair.server.raw), pair.server.connections) == (b"", 0)
        finally:
            pair.proxy.process.send_signal(signal.SIGCONT)
    assert_well(pair)


def test_killing_the_proxy_closes_its_connections(tmp_path: Path) -> None:
    with start_pair(tmp_path, POLICY) as pair:
        begun = threading.Event()
        ended = threading.Event()

        def listen(stream: socket.socket, _: bytes) -> None:
            begun.set()
            read_all(stream)
            ended.set()

        pair.server.answers["/up"] = listen
        with pair.proxy.tls("allowed.test") as stream:
            stream.sendall(get("/up", "allowed.test", "Content-Length: 1000", method="POST"))
            assert begun.wait(30)
            pair.proxy.process.kill()
            assert read_all(stream) == b""
            assert ended.wait(30)
        pair.proxy.process.wait(30)
        with pytest.raises(ConnectionRefusedError):
            pair.proxy.connect()
