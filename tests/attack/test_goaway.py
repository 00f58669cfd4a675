"""Servers that end HTTP/2 connections, or refuse streams: every request is processed once, and no response is cut."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import override

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

from agent_sandbox.proxy.secrets.store import put_secret
from certificates import make_authority
from http2client import Http2Client, fields
from layer_harness import goaway
from loopback_server import Listening
from proxy_stand import MITMPROXY_LOADED, SECONDS, ProxyProcess

REQUESTS, AT_ONCE, PER_CONNECTION = 100, 8, 5
ANNOUNCED = 0x7FFF_FFFF
TOKEN = "s3cr3t-of-the-tracker"
RULE = """
- host: {host}
  budget: {{requests: 100/day}}
  rules: [{{methods: [POST]}}]
  transform: {{request: {{headers: {{Authorization: {{secret: tracker.token, transform: {{type: bearer}}}}}}}}}}"""


class Departing(Listening):
    """Processes five requests of each connection, and says goodbye before it finishes their responses.

    It never closes, and ignores further streams.
    """

    protocols = ("h2",)

    def __init__(self, certificate: Path, goodbye: Callable[[int], bytes]) -> None:
        self.certificate = certificate
        self.goodbye = goodbye
        self.processed: list[tuple[str, str, bytes]] = []  # path, credentials and body
        self.read = 0  # bytes of bodies
        self.left: list[int] = []  # the connections that the proxy has closed

    @override
    def talk(self, stream: socket.socket) -> None:
        try:
            self._talk(stream)
        finally:  # the proxy may have closed before the last frame was sent
            self.left.append(stream.fileno())

    def _talk(self, stream: socket.socket) -> None:
        engine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        engine.initiate_connection()
        stream.sendall(engine.data_to_send())
        taken: dict[int, list[bytes]] = {}
        heads: dict[int, dict[str, str]] = {}
        begun: list[int] = []
        while data := stream.recv(65536):
            for event in engine.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    heads[event.stream_id] = {str(name): str(value) for name, value in event.headers}
                    if self.takes(engine, event.stream_id, heads[event.stream_id][":path"], len(taken)):
                        taken[event.stream_id] = []
                elif isinstance(event, h2.events.DataReceived):
                    self.read += len(event.data)
                    engine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    taken.get(event.stream_id, []).append(event.data)
                elif isinstance(event, h2.events.StreamEnded) and event.stream_id in taken:
                    head = heads[event.stream_id]
                    self.processed.append((head[":path"], head["authorization"], b"".join(taken[event.stream_id])))
                    engine.send_headers(event.stream_id, [(":status", "200")])
                    engine.send_data(event.stream_id, b"half, ")
                    begun.append(event.stream_id)
            stream.sendall(engine.data_to_send())
            if self.finishes(stream, taken):
                for number in begun:
                    engine.send_data(number, b"whole")
                    engine.send_headers(number, [("grpc-status", "0")], end_stream=True)
                begun.clear()
                stream.sendall(engine.data_to_send())

    def takes(self, engine: h2.connection.H2Connection, number: int, path: str, taken: int) -> bool:  # noqa: ARG002
        """Return whether to process a request."""
        return taken < PER_CONNECTION

    def finishes(self, stream: socket.socket, taken: dict[int, list[bytes]]) -> bool:
        """Say goodbye if it is time; return whether to finish responses."""
        if len(taken) < PER_CONNECTION:
            return False
        stream.sendall(self.goodbye(max(taken)))
        return True


class Refusing(Departing):
    """Refuses each request once."""

    def __init__(self, certificate: Path) -> None:
        super().__init__(certificate, lambda _: b"")
        self.refused: set[str] = set()

    @override
    def takes(self, engine: h2.connection.H2Connection, number: int, path: str, taken: int) -> bool:
        if path in self.refused:
            return True
        self.refused.add(path)
        engine.reset_stream(number, h2.errors.ErrorCodes.REFUSED_STREAM)
        return False

    @override
    def finishes(self, stream: socket.socket, taken: dict[int, list[bytes]]) -> bool:
        return True


class Useless(Departing):
    """Processes nothing: it ends each connection on which it gets a request."""

    @override
    def takes(self, *_: object) -> bool:
        return False

    @override
    def finishes(self, stream: socket.socket, taken: dict[int, list[bytes]]) -> bool:
        stream.sendall(self.goodbye(0))
        return False


class Silent(Useless):
    """Reads everything, and says nothing."""

    @override
    def finishes(self, stream: socket.socket, taken: dict[int, list[bytes]]) -> bool:
        return False


KINDS: dict[str, Callable[[Path], Departing]] = {
    "at-once.test": lambda pem: Departing(pem, goaway),
    "announced.test": lambda pem: Departing(pem, lambda last: goaway(ANNOUNCED) + goaway(last)),
    "angry.test": lambda pem: Departing(pem, lambda last: goaway(last, 11, b"too many requests")),
    "refusing.test": Refusing,
    "calm.test": Refusing,
    "useless.test": lambda pem: Useless(pem, goaway),
    "silent.test": lambda pem: Silent(pem, goaway),
}
Running = tuple[ProxyProcess, dict[str, Departing]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A proxy with a secret and a budget for each server."""
    folder = tmp_path_factory.mktemp("goaway")
    (folder / "state" / "secrets").mkdir(parents=True)
    put_secret(folder / "state" / "secrets", "tracker.token", [*KINDS], TOKEN.encode())
    authority = make_authority(folder, [*KINDS])
    policy = "version: 1\ndomains:" + "".join(RULE.format(host=host) for host in KINDS)
    with ExitStack() as stack:
        servers = {host: stack.enter_context(kind(folder / "leaf.pem")) for host, kind in KINDS.items()}
        resolve = {(host, 443): server.port for host, server in servers.items()}
        proxy = ProxyProcess(folder, policy, resolve=resolve, upstream_ca=authority, sabotage=MITMPROXY_LOADED)
        yield stack.enter_context(proxy), servers


def body(number: int) -> bytes:
    return b"%d;" % number * 3_000


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("host", ["at-once.test", "announced.test", "angry.test", "refusing.test"])
def test_every_request_is_processed_once_and_answered_whole(running: Running, host: str) -> None:
    proxy, server = running[0], running[1][host]
    proxy.forget()
    answers = []
    with proxy.tls(host, alpn=("h2",)) as stream:
        client, waiting = Http2Client(stream), []
        for number in range(REQUESTS):
            waiting.append(client.send(*fields(f"/{number}", host, "POST"), body=body(number)))
            if len(waiting) == AT_ONCE:
                answers.append(client.answer(waiting.pop(0)))
        answers += map(client.answer, waiting)
        assert answers == [("200", b"half, whole")] * REQUESTS
        sent = [(f"/{number}", f"Bearer {TOKEN}", body(number)) for number in range(REQUESTS)]
        assert sorted(server.processed) == sorted(sent)
        if host == "refusing.test":
            assert (server.connections, len(server.refused)) == (1, REQUESTS)  # type: ignore[attr-defined]
        else:
            assert server.connections == REQUESTS / PER_CONNECTION
            until(lambda: len(server.left) == server.connections)
    until(lambda: len(proxy.lines) == REQUESTS)
    recorded = {(line["path"], line["status"], line["bytes_out"], len(line["secrets"])) for line in proxy.lines}
    assert recorded == {(f"/{number}", 200, len(body(number)), 1) for number in range(REQUESTS)}


def test_a_client_that_says_goodbye_gets_its_whole_response(running: Running) -> None:
    with running[0].tls("calm.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        number = client.send(*fields("/bye", "calm.test", "POST"), body=b"x")
        stream.sendall(goaway(0))
        assert client.answer(number) == ("200", b"half, whole")


def test_a_server_that_processes_nothing_gets_each_request_twice(running: Running) -> None:
    proxy, server = running[0], running[1]["useless.test"]
    with proxy.tls("useless.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        for number in range(3):
            assert client.answer(client.send(*fields("/x", "useless.test", "POST"), body=b"x"))[0] == "502"
            assert server.connections == 2 * (number + 1)
        until(lambda: len(server.left) == server.connections)


def test_copies_of_unanswered_request_bodies_stay_within_a_memory_bound(running: Running) -> None:
    proxy, server = running[0], running[1]["silent.test"]
    before, pieces, piece = proxy.memory(), 64, bytes(16_384)
    with proxy.tls("silent.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        for _ in range(40):
            number = client.begin(fields("/x", "silent.test", "POST"), piece, ends=False)
            for _ in range(pieces - 1):
                while client.h2.local_flow_control_window(number) < len(piece):
                    client.take(stream.recv(65_536))
                client.h2.send_data(number, piece)
                client.flush()
        until(lambda: server.read == 40 * pieces * len(piece))
        assert proxy.memory() - before < 24 * 1_048_576
