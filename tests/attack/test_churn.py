"""Dropped connections, resets at each byte, endless heads and many names leave nothing behind."""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from capture_server import ok
from client_hellos import hello
from proxy_pair import NAMES, Pair, start_pair
from proxy_stand import get, read_head

MIB = 1_048_576
IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
WAVES, WAVE = 20, 500  # ten thousand dropped connections
NAMED = 500 if IS_DEEP else 70
RESET = struct.pack("ii", 1, 0)
POLICY = 'version: 1\ndomains: [allowed.test, "*.wild.test"]\n'
# Every name below wild.test leads to the server. A small cache of certificates fills up sooner.
SABOTAGE = """
import pathlib, sys
from agent_sandbox.proxy.tls import contexts
from agent_sandbox.proxy.upstream import dialler
contexts.REMEMBERED_HOSTS = 16
folder = pathlib.Path(sys.argv[2].partition("=")[2]).parent
connect = dialler.connect
async def here(address, port):
    return await connect("127.0.0.1", port if address == "127.0.0.1" else int((folder / "port").read_text()))
dialler.socket.getaddrinfo = lambda host, port, **more: [(0, 0, 0, "", ("203.0.113.139", port))]
dialler.Dialler.__init__.__kwdefaults__.update(connect=here)
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy that has served each kind of connection once."""
    folder = tmp_path_factory.mktemp("churn")
    with start_pair(folder, POLICY, names=(*NAMES, "*.wild.test"), sabotage=SABOTAGE) as pair:
        (folder / "port").write_text(str(pair.server.port))
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with empty records."""
    started.forget()
    assert_well(started)
    return started


def assert_well(pair: Pair) -> None:
    """Check that other requests are allowed or denied as usual."""
    assert pair.proxy.ask("allowed.test", get("/x", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert pair.proxy.say(get("http://allowed.test/x", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert pair.proxy.say(get("http://evil.test/", "evil.test")).startswith(b"HTTP/1.1 403")


@dataclass
class Held:
    """The resources that the proxy holds at one time."""

    files: int
    memory: int


def held(pair: Pair) -> Held:
    return Held(len([*Path(f"/proc/{pair.proxy.process.pid}/fd").iterdir()]), pair.proxy.memory())


def assert_returns_to(before: Held, pair: Pair, *, growth: int, seconds: float = 5) -> None:
    """Check that all descriptors are closed soon, and that memory grew by less than `growth`."""
    end = time.monotonic() + seconds
    while held(pair).files > before.files and time.monotonic() < end:
        time.sleep(0.05)
    after = held(pair)
    assert (after.files <= before.files, after.memory - before.memory < growth) == (True, True), (before, after)


def reset(connection: socket.socket) -> None:
    """Close with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


TUNNEL = b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n"
# What the client sends before it drops the connection.
SAID = (
    b"",
    b"CONNECT allowed.test:443 HT",
    TUNNEL + hello(b"allowed.test")[:40],
    TUNNEL + hello(b"allowed.test"),
    get("http://allowed.test/x", "allowed.test")[:-2],
    get("http://allowed.test/x", "allowed.test"),
    get("http://allowed.test/x", "allowed.test", "Content-Length: 100", method="POST") + b"begun",
    get("http://evil.test/x", "evil.test"),
)


def test_thousands_of_dropped_connections_leak_no_descriptors_or_memory(pair: Pair) -> None:
    start, after = held(pair), []
    for _ in range(WAVES):
        for number in range(WAVE):
            connection = pair.proxy.connect()
            connection.sendall(SAID[number % len(SAID)])
            reset(connection) if number % 3 else connection.close()
        assert pair.proxy.memory() - start.memory < 128 * MIB
        assert_returns_to(start, pair, growth=64 * MIB, seconds=20)
        after.append(pair.proxy.memory())
        assert_well(pair)
    assert after[-1] - after[WAVES // 2] < 4 * MIB  # malloc reaches its level in the first waves


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
WITH_LENGTH = ok(b"hello")


def stop_at(answer: bytes, stream: socket.socket, _: bytes) -> None:
    """Send the beginning of an answer, and reset the connection."""
    stream.sendall(answer)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@pytest.mark.parametrize("answer", [CHUNKED, WITH_LENGTH])
def test_records_a_server_reset_at_any_byte_of_the_response(pair: Pair, answer: bytes) -> None:
    before = held(pair)
    for end in range(len(answer)):
        path = f"/reset/{len(answer)}/{end}"
        pair.plain.answers[path] = partial(stop_at, answer[:end])
        got = pair.proxy.say(get(f"http://allowed.test{path}", "allowed.test"))
        record = pair.proxy.line(path=path)
        if got.startswith(b"HTTP/1.1 502 "):
            assert record["status"] == 502
        else:
            assert (got.endswith(answer[-5:]), "; aborted: " in record["reason"]) == (False, True), (got, record)
    assert_returns_to(before, pair, growth=4 * MIB)
    assert_well(pair)


def test_forwards_no_request_that_the_client_resets_before_its_end(pair: Pair) -> None:
    before, body = held(pair), b"hello"
    request = get("http://allowed.test/reset", "allowed.test", "Content-Length: 5", method="POST") + body
    for end in range(len(request)):
        connection = pair.proxy.connect()
        connection.sendall(request[:end])
        time.sleep(0.005)
        reset(connection)
    assert_returns_to(before, pair, growth=4 * MIB)
    assert [one.line for one in pair.plain.requests if "/reset" in one.line] == []
    assert_well(pair)


LINE = b"X: " + b"y" * 1_000 + b"\r\n"
HEADS = {
    "fields": (b"GET http://allowed.test/x HTTP/1.1\r\nHost: allowed.test\r\n", LINE),
    "a field": (b"GET http://allowed.test/x HTTP/1.1\r\nHost: allowed.test\r\nX: ", b"y" * 1_000),
    "a request line": (b"GET http://allowed.test/", b"y" * 1_000),
    "CONNECT": (b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n", LINE),
}


def pour(stream: socket.socket, data: bytes, *, most: int = 1024 * MIB) -> int:
    """Send the data repeatedly, up to a gigabyte. Return how many bytes were accepted."""
    sent, piece = 0, data * (MIB // len(data))
    with contextlib.suppress(OSError):
        while sent < most:
            sent += stream.send(piece)
    return sent


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("what", HEADS)
def test_an_endless_request_head_is_a_431_after_its_first_kilobytes(pair: Pair, what: str, *, tls: bool) -> None:
    begin, more = HEADS[what]
    before = held(pair)
    with contextlib.ExitStack() as stack:
        is_inside = tls and what != "CONNECT"
        stream = stack.enter_context(pair.proxy.tls("allowed.test") if is_inside else pair.proxy.connect())
        stream.sendall(begin + more * 100)
        assert read_head(stream).startswith(b"HTTP/1.1 431 ")
        assert pour(stream, more) < 32 * MIB
    assert_returns_to(before, pair, growth=4 * MIB)
    assert_well(pair)


def test_an_endless_response_head_is_a_502(pair: Pair) -> None:
    taken: SimpleQueue[int] = SimpleQueue()

    def play(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\n")
        taken.put(pour(stream, LINE))

    pair.plain.answers["/endless"] = play
    before = held(pair)
    assert pair.proxy.say(get("http://allowed.test/endless", "allowed.test")).startswith(b"HTTP/1.1 502 ")
    assert_returns_to(before, pair, growth=4 * MIB)
    assert taken.get(timeout=30) < 32 * MIB


def ask_for(pair: Pair, numbers: range) -> None:
    for number in numbers:
        host = f"n{number}.wild.test"
        assert pair.proxy.ask(host, get("/x", host)).startswith(b"HTTP/1.1 200")
        denied = f"n{number}.evil.test"
        assert pair.proxy.ask(denied, get("/x", denied)).startswith(b"HTTP/1.1 403")


def test_memory_stays_bounded_over_many_host_names(pair: Pair) -> None:
    ask_for(pair, range(30))  # fills the caches
    before = held(pair)
    ask_for(pair, range(30, NAMED))
    assert_returns_to(before, pair, growth=2 * MIB)
