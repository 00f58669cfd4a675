"""Passthrough of TLS (`inspect: false`): the checks that still apply."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from changed_limits import limits_with
from proxy_pair import HELD, Pair, hold_dialling, start_pair
from proxy_stand import ProxyProcess, get, read_all, read_head

UNOPENED = "version: 1\ndomains: [{host: allowed.test, inspect: false}, {host: a.wild.test, inspect: false}]\n"
OPENED = "version: 1\ndomains: [allowed.test, {host: a.wild.test, inspect: false}]\n"
ONE = "version: 1\ndomains: [{host: a.wild.test, inspect: false}]\n"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy with passthrough for two hosts."""
    with start_pair(tmp_path_factory.mktemp("unopened"), UNOPENED, sabotage=HELD) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    """The same, with empty records."""
    started.proxy.reload(UNOPENED)
    started.forget()
    return started


@contextlib.contextmanager
def through(proxy: ProxyProcess, host: str = "allowed.test", sni: str | None = None) -> Iterator[ssl.SSLSocket]:
    """Open TLS to the server itself: trust the CA of the server, not that of the proxy."""
    context = ssl.create_default_context(cafile=proxy.upstream_ca)
    with (
        proxy.tunnel(host) as connection,
        context.wrap_socket(connection, server_hostname=sni or host) as stream,
    ):
        yield stream


def hello(sni: str | None) -> bytes:
    """Return the ClientHello of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=sni).do_handshake()
    return outgoing.read()


def test_passes_tls_to_the_server_and_records_the_tunnel_with_its_bytes(pair: Pair) -> None:
    with through(pair.proxy) as stream:
        stream.sendall(get("/anything/../at%00all", "evil.test"))
        assert read_head(stream).startswith(b"HTTP/1.1 200")
    line = pair.proxy.line(event="tunnel", host="allowed.test", port=443)
    assert (line["decision"], line["rule"]) == ("allow", "policy.yaml:2")
    assert line["bytes_out"] > 300
    assert line["bytes_in"] > 300
    assert [other["event"] for other in pair.proxy.lines] == ["tunnel"]


@pytest.mark.parametrize(("sni", "reason"), [("b.wild.test", "sni_mismatch"), (None, "sni_missing")])
def test_ends_a_tunnel_with_a_wrong_or_missing_sni(pair: Pair, sni: str | None, reason: str) -> None:
    with pair.proxy.tunnel("allowed.test") as connection:
        connection.sendall(hello(sni))
        assert read_all(connection)[:1] in (b"", b"\x15")
    line = pair.proxy.line(event="connect")
    assert (line["decision"], line["reason"].partition(":")[0]) == ("deny", reason)
    assert (bytes(pair.server.raw), pair.server.connections) == (b"", 0)


def test_forwards_nothing_that_is_not_tls(pair: Pair) -> None:
    with pair.proxy.tunnel("allowed.test") as connection:
        connection.sendall(b"SSH-2.0-x\r\n")
        assert read_all(connection) == b""
    assert pair.proxy.line(event="raw_tunnel")["decision"] == "deny"
    assert pair.server.connections == 0


def test_inspects_plain_http_in_a_tunnel(pair: Pair) -> None:
    with pair.proxy.tunnel("allowed.test", 80) as connection:
        connection.sendall(get("/a/../b", "allowed.test"))
        assert read_head(connection).startswith(b"HTTP/1.1 400")
    assert pair.plain.connections == 0
    assert pair.proxy.say(get("http://allowed.test/x", "allowed.test")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [1, 7])
def test_forwards_a_hello_that_arrives_in_pieces(pair: Pair, size: int) -> None:
    said = hello("allowed.test")
    with pair.proxy.tunnel("allowed.test") as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(said), size):
            connection.sendall(said[at : at + size])
        assert connection.recv(3)[:2] == b"\x16\x03"  # the server's hello: it understood ours


def test_does_not_connect_for_an_incomplete_hello(pair: Pair) -> None:
    with pair.proxy.tunnel("allowed.test") as connection:
        connection.sendall(hello("allowed.test")[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b""
    assert pair.proxy.line(event="raw_tunnel")["reason"] == "the client closed the connection during its first message"
    assert pair.server.connections == 0


def test_forwards_any_data_after_the_hello(pair: Pair) -> None:
    said = hello("allowed.test") + b"\x00plain"
    with pair.proxy.tunnel("allowed.test") as connection:
        connection.sendall(said)
        read_all(connection)
    assert pair.proxy.line(event="tunnel")["bytes_out"] == len(said)
    assert pair.server.requests == []


def test_inspects_a_connection_with_encrypted_client_hello(pair: Pair) -> None:
    with pair.proxy.tunnel("allowed.test") as connection:
        connection.sendall(with_ech(hello("allowed.test")))
        assert connection.recv(3)[:2] == b"\x16\x03"
    assert pair.server.connections == 0


def with_ech(data: bytes) -> bytes:
    """Add an Encrypted ClientHello extension to a hello, as every browser does."""
    extra = b"\xfe\x0d\x00\x04\x00\x01\x02\x03"
    message = data[9:]
    at = 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2])
    at += 1 + message[at]
    length = int.from_bytes(message[at : at + 2]) + len(extra)
    body = message[:at] + length.to_bytes(2) + message[at + 2 :] + extra
    record = b"\x01" + len(body).to_bytes(3) + body
    return data[:3] + len(record).to_bytes(2) + record


def test_inspects_a_host_that_has_a_rule_about_a_path(pair: Pair) -> None:
    pair.proxy.reload(UNOPENED + "deny: [GET https://allowed.test/secret]\n")
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/secret", "allowed.test"))
        assert read_head(stream).startswith(b"HTTP/1.1 403")
    assert pair.server.connections == 0


@pytest.mark.parametrize("policy", [OPENED, ONE])
def test_a_reload_ends_only_the_connections_that_it_no_longer_lets_through(pair: Pair, policy: str) -> None:
    with through(pair.proxy) as gone, through(pair.proxy, "a.wild.test") as kept:
        pair.proxy.reload(policy)
        assert read_all(gone) == b""
        kept.sendall(get("/x", "a.wild.test"))
        assert read_head(kept).startswith(b"HTTP/1.1 200")
    line = pair.proxy.line(event="tunnel", host="allowed.test")
    assert (line["decision"], line["reason"].partition(":")[0]) == ("deny", "the policy was reloaded")


def test_denies_a_name_that_resolves_to_a_loopback_address(tmp_path: Path) -> None:
    policy = "version: 1\ndomains: [{host: localhost.wild.test, inspect: false}]\n"
    sabotage = (
        "from agent_sandbox.proxy.upstream import dialler\n"
        "async def resolve(host, port): return ['127.0.0.1']\n"
        "dialler.Dialler.__init__.__kwdefaults__['resolve'] = resolve\n"
    )
    with start_pair(tmp_path, policy, sabotage=sabotage) as pair:
        with pair.proxy.tunnel("localhost.wild.test") as connection:
            connection.sendall(hello("localhost.wild.test"))
            assert read_all(connection) == b""
        line = pair.proxy.line(event="tunnel")
    assert (line["decision"], line["cause"]) == ("deny", "address")
    assert line["reason"] == "localhost.wild.test resolves to 127.0.0.1, a loopback address"


def test_does_not_buffer_a_download_that_the_client_never_reads(pair: Pair) -> None:
    stopped = threading.Event()

    def play(stream: socket.socket, _: bytes) -> None:
        stream.settimeout(1)
        try:
            for _part in range(300):
                stream.sendall(bytes(1_048_576))
        except OSError:
            stopped.set()

    pair.server.answers["/unread"] = play
    before = pair.proxy.memory()
    with through(pair.proxy) as stream:
        stream.sendall(get("/unread", "allowed.test"))
        assert stopped.wait(30)
        assert pair.proxy.memory() - before < 24 * 1_048_576


@pytest.mark.parametrize("ended", ["by the client", "by a reset", "by a reload"])
def test_does_not_connect_after_the_client_left_or_a_reload_denied_the_host(pair: Pair, ended: str) -> None:
    with hold_dialling(pair.proxy):
        with pair.proxy.tunnel("allowed.test") as connection:
            connection.sendall(hello("allowed.test"))
            time.sleep(0.1)
            if ended == "by a reload":
                pair.proxy.reload(ONE)
            elif ended == "by a reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line = pair.proxy.line(event="tunnel")
    assert (pair.server.connections, line["bytes_out"]) == (0, 0)
    assert line["decision"] == ("deny" if ended == "by a reload" else "allow")
    assert ("the client left before the server was reached" in line["reason"]) is (ended != "by a reload")


def test_aborts_a_stalled_upload_when_its_client_disconnects(tmp_path: Path) -> None:
    begun, over = threading.Event(), threading.Event()

    def play(stream: socket.socket, _: bytes) -> None:
        begun.set()
        over.wait(30)
        read_all(stream)

    with start_pair(tmp_path, UNOPENED, sabotage=limits_with(connections=1)) as pair:
        pair.server.answers["/up"] = play
        with contextlib.suppress(OSError), through(pair.proxy) as stream:
            stream.sendall(get("/up", "allowed.test", "Content-Length: 100000000", method="POST"))
            assert begun.wait(30)
            stream.settimeout(0.5)
            stream.sendall(bytes(100_000_000))
        pair.proxy.say(get("http://b.test/", "b.test"))  # uses the only connection allowed
        assert "aborted" in pair.proxy.line(event="tunnel")["reason"]
        over.set()
