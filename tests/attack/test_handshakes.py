"""Servers that fail the TLS handshake: each gets a 502 that says why, in our words, whatever the client speaks."""

import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import override

import pytest

from certificates import make_authority
from http2client import Http2Client, fields
from loopback_server import Listening
from proxy_stand import ProxyProcess, get, read_answer

type Talk = Callable[[socket.socket], None]

OWN_TLS = "with `inspect: false`, the client does TLS with this host itself"
CLOSED = f"the server closed the connection during the TLS handshake; {OWN_TLS}"
CLIENT = f"the server asks for a client certificate; {OWN_TLS}"
REFUSED = f"the server refused the TLS handshake: it may ask for a client certificate, or other ciphers; {OWN_TLS}"


def answering(reply: bytes) -> Talk:
    """Return a server that answers the ClientHello with these bytes, and closes."""

    def talk(stream: socket.socket) -> None:
        stream.recv(65536)
        stream.sendall(reply)

    return talk


def alert(number: int) -> Talk:
    return answering(bytes([0x15, 3, 3, 0, 2, 2, number]))


def reset(stream: socket.socket) -> None:
    stream.recv(65536)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def wants_certificate(folder: Path, version: ssl.TLSVersion) -> Talk:
    """Return a server that asks for a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "leaf.pem")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode, context.minimum_version, context.maximum_version = ssl.CERT_REQUIRED, version, version

    def talk(stream: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(stream, server_side=True) as tls:
            tls.recv(65536)

    return talk


class Faulty(Listening):
    """A server that fails the TLS handshake."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    @override
    def talk(self, stream: socket.socket) -> None:
        self._talk(stream)


FAULTS: dict[str, tuple[Talk | ssl.TLSVersion, tuple[str, ...]]] = {
    "refuses": (alert(40), (REFUSED,)),
    "fails": (alert(80), (f"the server refused the TLS handshake; {OWN_TLS}",)),
    "unknown": (alert(112), ("the server does not know this host",)),
    "old": (alert(70), (f"the server speaks only versions of TLS before 1.2; {OWN_TLS}",)),
    "demanding": (alert(116), (CLIENT,)),
    "mail": (answering(b"220 mail ready\r\n"), ("the server does not speak TLS on this port",)),
    "closes": (answering(b""), (CLOSED,)),
    "resets": (reset, (CLOSED,)),
    "mutual13": (ssl.TLSVersion.TLSv1_3, (CLIENT,)),
    # TLS 1.2 has no alert for a missing client certificate.
    "mutual12": (ssl.TLSVersion.TLSv1_2, (CLIENT, REFUSED)),
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    """A proxy with a server for each fault."""
    folder = tmp_path_factory.mktemp("handshakes")
    hosts = {fault: f"{fault}.test" for fault in FAULTS}
    authority = make_authority(folder, [*hosts.values()])
    with ExitStack() as stack:
        resolve = {}
        for fault, (talk, _) in FAULTS.items():
            served = wants_certificate(folder, talk) if isinstance(talk, ssl.TLSVersion) else talk
            resolve[hosts[fault], 443] = stack.enter_context(Faulty(served)).port
        policy = f"version: 1\ndomains: [{', '.join(hosts.values())}]\n"
        yield stack.enter_context(ProxyProcess(folder, policy, resolve=resolve, upstream_ca=authority))


@pytest.mark.parametrize("alpn", ["h2", "http/1.1"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_handshake_is_a_502_in_our_words(proxy: ProxyProcess, fault: str, alpn: str) -> None:
    host = f"{fault}.test"
    with proxy.tls(host, alpn=(alpn,)) as stream:
        if alpn == "h2":
            client = Http2Client(stream)
            status, body = client.answer(client.send(*fields("/x", host)))
        else:
            stream.sendall(get("/x", host, "Accept: application/json"))
            number, body = read_answer(stream)
            status = str(number)
    reason = json.loads(body)["reason"]
    assert (status, reason in FAULTS[fault][1]) == ("502", True), reason
