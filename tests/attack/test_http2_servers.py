"""HTTP/2 and gRPC servers: rows W6 and W8 of the attack list."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import override

import h2.config
import h2.connection
import h2.events
import pytest

from agent_sandbox.proxy.mitm.loading import AGAIN
from certificates import make_authority
from http2client import Http2Client, fields
from http2server import Http2Server
from proxy_stand import ProxyProcess

MIB = 1_048_576
FIELDS = [(":method", "POST"), (":scheme", "https"), (":authority", "grpc.test"), (":path", "/pkg.Service/Call")]


class Reluctant(Http2Server):
    """A server that ends TLS handshakes that do not offer HTTP/2, without an alert."""

    @override
    def _serve(self, connection: socket.socket) -> None:
        if b"\x02h2" in connection.recv(65536, socket.MSG_PEEK):
            super()._serve(connection)
        else:
            connection.close()


@pytest.fixture(scope="module")
def grpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxyProcess, Http2Server]]:
    """A proxy, and behind it a server that reads, one that does not, and one that requires HTTP/2."""
    folder = tmp_path_factory.mktemp("grpc")
    authority = make_authority(folder, ["grpc.test", "stuck.test", "reluctant.test", "odd.test"])
    with ExitStack() as stack:
        server = stack.enter_context(Http2Server(folder / "leaf.pem"))
        stuck = stack.enter_context(Http2Server(folder / "leaf.pem", reads=False))
        reluctant = stack.enter_context(Reluctant(folder / "leaf.pem"))
        odd = stack.enter_context(Http2Server(folder / "leaf.pem", more=(("transfer_encoding", "chunked"),)))
        servers = {"grpc.test": server, "stuck.test": stuck, "reluctant.test": reluctant, "odd.test": odd}
        resolve = {(name, 443): one.port for name, one in servers.items()}
        policy = "version: 1\ndomains: [grpc.test, stuck.test, reluctant.test, odd.test]\n"
        yield stack.enter_context(ProxyProcess(folder, policy, resolve=resolve, upstream_ca=authority)), server


class Client:
    """An HTTP/2 client over a TLS tunnel."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        self.stream = stream
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.events: list[h2.events.Event] = []

    def send(self, number: int, data: bytes) -> None:
        """Send a body as far as the flow control window allows."""
        while data:
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(data))
            if room:
                self.h2.send_data(number, data[:room])
                data = data[room:]
            else:
                self.receive()
            self.stream.sendall(self.h2.data_to_send())

    def receive(self) -> None:
        """Read and process the next data."""
        self.events += self.h2.receive_data(self.stream.recv(65536))
        self.stream.sendall(self.h2.data_to_send())

    def until_end(self, number: int) -> None:
        """Read until a stream has ended."""
        while not any(isinstance(event, h2.events.StreamEnded) and event.stream_id == number for event in self.events):
            self.receive()


@pytest.mark.parametrize("size", [5, 8 * MIB])
def test_forwards_grpc_calls_with_trailers(grpc: tuple[ProxyProcess, Http2Server], size: int) -> None:
    proxy, server = grpc
    before = proxy.memory()
    with proxy.tls("grpc.test", alpn=("h2",)) as stream:
        client = Client(stream)
        for number in (1, 3):
            client.h2.send_headers(number, FIELDS)
            client.send(number, bytes(size))
            client.h2.end_stream(number)
            stream.sendall(client.h2.data_to_send())
            client.until_end(number)
    trailers = [event for event in client.events if isinstance(event, h2.events.TrailersReceived)]
    bodies = [event.data for event in client.events if isinstance(event, h2.events.DataReceived) and event.data]
    assert [str(next(iter(event.headers or []))[0]) for event in trailers] == ["grpc-status"] * 2
    assert bodies == [str(size).encode()] * 2
    assert server.requests[-1][":path"] == "/pkg.Service/Call"
    assert proxy.memory() - before < 24 * MIB


def test_an_upload_that_the_server_does_not_read_is_not_buffered(grpc: tuple[ProxyProcess, Http2Server]) -> None:
    proxy, _ = grpc
    before = proxy.memory()
    with proxy.tls("stuck.test", alpn=("h2",)) as stream:
        client = Client(stream)
        fields = [(name, value.replace("grpc.test", "stuck.test")) for name, value in FIELDS]
        client.h2.send_headers(1, fields)
        stream.settimeout(1)
        with pytest.raises(TimeoutError):
            client.send(1, bytes(40 * MIB))
    assert proxy.memory() - before < 24 * MIB


def test_connects_over_http2_to_a_server_that_accepts_nothing_else(
    grpc: tuple[ProxyProcess, Http2Server],
) -> None:
    with grpc[0].tls("reluctant.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.answer(client.send(*fields("/x", "reluctant.test"))) == ("200", b"0")


def test_a_response_with_a_field_that_some_programs_read_as_framing_is_a_502(
    grpc: tuple[ProxyProcess, Http2Server],
) -> None:
    with grpc[0].tls("odd.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        assert client.status(client.send(*fields("/x", "odd.test"))) == "502"
    assert grpc[0].line(host="odd.test")["reason"] == (
        "the server's response cannot be forwarded: "
        "a header named transfer_encoding, which some programs read as Transfer-Encoding"
    )


# The import of one module fails once, for lack of file descriptors.
FAILS_ONCE = """
from importlib.machinery import SourceFileLoader
from agent_sandbox.proxy.mitm import loading
loading.RETRY_SECONDS, failing = 0.5, [OSError(24, "Too many open files")]
def run(self, module, real=SourceFileLoader.exec_module):
    real(self, module)
    if module.__name__ == "agent_sandbox.proxy.mitm.stream" and failing:
        raise failing.pop()
SourceFileLoader.exec_module = run
"""


def test_http2_works_again_after_a_failed_import_of_mitmproxy(tmp_path: Path) -> None:
    authority = make_authority(tmp_path, ["allowed.test"])
    policy = "version: 1\ndomains:\n  - host: allowed.test\n    rules: [{path: {prefix: /api/}}]\n"
    with ExitStack() as stack:
        resolve = {("allowed.test", 443): stack.enter_context(Http2Server(tmp_path / "leaf.pem")).port}
        proxy = ProxyProcess(tmp_path, policy, resolve=resolve, upstream_ca=authority, sabotage=FAILS_ONCE)
        stack.enter_context(proxy)
        with pytest.raises(ssl.SSLError, match="ALERT_INTERNAL_ERROR"), proxy.tls("allowed.test", alpn=("h2",)):
            pass
        line = proxy.line(event="fault", decision="deny")
        assert line["reason"] == f"mitmproxy cannot be imported ([Errno 24] Too many open files); {AGAIN}"
        time.sleep(0.6)
        with proxy.tls("allowed.test", alpn=("h2",)) as stream:
            client = Http2Client(stream)
            assert [client.status(client.send(*fields(path))) for path in ("/api/x", "/no")] == ["200", "403"]
