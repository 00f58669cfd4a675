"""A small limit of connections: clients that never read or send must not keep others out."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_server import ok
from changed_limits import limits_with
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_head

POLICY = "version: 1\ndomains: [allowed.test]\n"
PLACES, SECONDS = 4, 2.0
# Tests wait for less than `closing_seconds`: what closes by then, another connection has displaced.
CROWDED = limits_with(connections=PLACES)
# How much the kernel buffers for a client that never reads differs by a few hundred KB. If the proxy has not read the
# whole response yet, the idle limit closes the connection instead of `closing_seconds`.
HURRIED = CROWDED + limits_with(closing_seconds=SECONDS, idle_seconds=3)


def deaf(address: tuple[str, int]) -> socket.socket:
    """Connect as a client that will not read, with a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.connect(address)
    return client


def taken_unread() -> int:
    """Return how many bytes the kernel buffers for a client that reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening, deaf(listening.getsockname()):
        stream, _ = listening.accept()
        taken = 0
        with stream, contextlib.suppress(BlockingIOError):
            stream.settimeout(0)
            while True:
                taken += stream.send(bytes(65_536))
    return taken


@contextlib.contextmanager
def start(folder: Path, limits: str) -> Iterator[Pair]:
    with start_pair(folder, POLICY, sabotage=limits) as pair:
        # More than the kernel buffers, by less than the proxy reads ahead.
        pair.server.answers["/large"] = ok(bytes(taken_unread() + 150_000))
        yield pair


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy with a small connection limit."""
    with start(tmp_path_factory.mktemp("closing"), CROWDED) as pair:
        yield pair


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The same, with short times until connections are closed."""
    with start(tmp_path_factory.mktemp("hurried"), HURRIED) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with empty records."""
    started.forget()
    return started


def sockets(pair: Pair) -> int:
    """Return how many sockets the process holds, whatever `status` reports."""
    held = 0
    for entry in Path(f"/proc/{pair.proxy.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            held += str(entry.readlink()).startswith("socket:")
    return held


def falls_to(pair: Pair, most: int) -> bool:
    """Return whether at most `most` sockets are left in half a minute."""
    end = time.monotonic() + 30
    while (falls := sockets(pair) > most) and time.monotonic() < end:
        time.sleep(0.02)
    return not falls


def counted(pair: Pair) -> int:
    connections: int = pair.proxy.ask_control("status")["connections"]
    return connections


def test_clients_that_never_read_stay_within_the_connection_limit(pair: Pair) -> None:
    before = sockets(pair)
    with contextlib.ExitStack() as stack:
        for _ in range(4 * PLACES):
            client = stack.enter_context(deaf(pair.proxy.address))
            client.sendall(get("http://allowed.test/large", "allowed.test"))
            time.sleep(0.02)
        assert sockets(pair) > before
        assert falls_to(pair, before + 2 * PLACES)  # one to the client, one to the server
        assert counted(pair) <= PLACES


def test_closes_a_client_that_never_reads(hurried: Pair) -> None:
    before = sockets(hurried)
    with deaf(hurried.proxy.address) as client:
        client.sendall(get("http://allowed.test/large", "allowed.test"))
        hurried.plain.wait_for(1)
        assert falls_to(hurried, before)


def test_a_client_that_reads_slowly_gets_the_whole_response(hurried: Pair) -> None:
    with deaf(hurried.proxy.address) as client:
        client.sendall(get("http://allowed.test/large", "allowed.test"))
        client.settimeout(30)
        got, started = b"", time.monotonic()
        while piece := client.recv(32_768):
            got += piece
            time.sleep(0.02)
        assert time.monotonic() - started > SECONDS
    assert len(got.partition(b"\r\n\r\n")[2]) == int(got.lower().partition(b"content-length: ")[2].split()[0])


def test_connections_to_servers_that_never_read_stay_within_the_connection_limit(pair: Pair) -> None:
    over = threading.Event()

    def never_read(*_: object) -> None:
        over.wait(60)

    pair.server.answers["/up"] = never_read
    before, upload = sockets(pair), bytes(16_000_000)
    request = get("http://allowed.test/up", "allowed.test", f"Content-Length: {len(upload)}", method="POST")
    with contextlib.ExitStack() as stack:
        stack.callback(over.set)
        for _ in range(3 * PLACES):
            client = stack.enter_context(pair.proxy.connect(seconds=0.2))
            with contextlib.suppress(TimeoutError):
                client.sendall(request + upload)
        assert falls_to(pair, before + 2 * PLACES)
        assert counted(pair) == PLACES


def tick(stream: socket.socket, _: bytes) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        stream.sendall(b"5\r\ntick\n\r\n")
        time.sleep(0.05)


@pytest.mark.parametrize("entrance", ["listening", "tls", "http"])
@pytest.mark.parametrize("inspect", ["true", "false"])
def test_silent_connections_do_not_displace_a_client_that_receives_a_stream(
    pair: Pair, entrance: str, inspect: str
) -> None:
    pair.server.answers["/tick"] = tick
    pair.proxy.reload(f"version: 1\ndomains: [{{host: allowed.test, inspect: {inspect}}}]\n")
    context = ssl.create_default_context(
        cafile=pair.proxy.upstream_ca if inspect == "false" else pair.proxy.ready["ca"]
    )
    with (
        contextlib.ExitStack() as stack,
        pair.proxy.tunnel("allowed.test") as connection,
        context.wrap_socket(connection, server_hostname="allowed.test") as listening,
    ):
        listening.sendall(get("/tick", "allowed.test"))
        read_head(listening)
        for _ in range(4 * PLACES):
            stack.enter_context(pair.proxy.connect(entrance=entrance))
        for _ in range(10):
            assert listening.recv(100)
