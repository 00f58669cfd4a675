from contextlib import suppress
from pathlib import Path
from typing import Any, cast, override

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layer import Layer
from mitmproxy.proxy.layers import tls
from mitmproxy.proxy.tunnel import TunnelState
from OpenSSL import SSL

from agent_sandbox.proxy.mitm import bulk_tls
from agent_sandbox.proxy.mitm.bulk_tls import BulkServerTls
from agent_sandbox.proxy.mitm.session import EngineOptions
from agent_sandbox.proxy.tls.authority import load_authority, now_utc

BODY = bytes(range(256)) * 1024  # sixteen records


class Hearing(Layer):
    """Stands in for HTTP: keeps what it is told."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.heard: list[bytes | str] = []

    @override
    def _handle_event(self, event: events.Event) -> bulk_tls.Commands:
        self.heard.append(event.data if isinstance(event, events.DataReceived) else type(event).__name__)
        yield from ()


class Ends:
    """A server's TLS as the proxy has it, and the server, between which TLS is established."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        serving = SSL.Context(SSL.TLS_SERVER_METHOD)
        serving.use_certificate(load_authority(folder, now=now_utc()).leaf("a.test", key, now=now_utc()))
        serving.use_privatekey(key)
        ours, self.server = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD)), SSL.Connection(serving)
        ours.set_connect_state()
        self.server.set_accept_state()
        for side, peer in [(ours, self.server), (self.server, ours)] * 2:
            with suppress(SSL.WantReadError):
                side.do_handshake()
            with suppress(SSL.WantReadError):
                peer.bio_write(side.bio_read(65_536))
        client = Client(peername=("10.0.0.3", 1), sockname=("10.0.0.2", 8080), state=ConnectionState.OPEN)
        context = Context(client, cast("Any", EngineOptions()))
        self.layer = BulkServerTls(context, Server(address=("a.test", 443)))
        self.layer.conn.state = ConnectionState.OPEN
        self.layer.tls, self.layer.tunnel_state = ours, TunnelState.OPEN
        self.layer.child_layer = self.inside = Hearing(context)

    def encrypted(self) -> bytes:
        """Return what the server has to send."""
        return self.server.bio_read(1024 * 1024)

    def hear(self, data: bytes) -> list[bytes | str]:
        """Have it come; return what was told inside."""
        self.inside.heard.clear()
        assert not list(self.layer.handle_event(events.DataReceived(self.layer.conn, data)))
        return self.inside.heard


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Ends(tmp_path)


def test_passes_all_received_records_up_in_one_event(ends: Ends) -> None:
    ends.server.sendall(BODY)
    assert ends.hear(ends.encrypted()) == [BODY]


def test_holds_a_partial_record_until_the_rest_arrives(ends: Ends) -> None:
    ends.server.sendall(BODY)
    encrypted = ends.encrypted()
    assert ends.hear(encrypted[:40_000]) == [BODY[:32_768]]
    assert ends.hear(encrypted[40_000:40_001]) == []
    assert ends.hear(encrypted[40_001:]) == [BODY[32_768:]]


def test_passes_up_data_that_arrived_with_the_handshake(ends: Ends) -> None:
    ends.server.sendall(b"early")
    ends.layer.tls.bio_write(ends.encrypted())
    assert not list(ends.layer.receive_data(b""))
    assert ends.inside.heard == [b"early"]


def test_reports_the_close_after_the_last_record(ends: Ends) -> None:
    ends.server.sendall(b"the last")
    ends.server.shutdown()
    assert ends.hear(ends.encrypted()) == [b"the last", "ConnectionClosed"]
    assert ends.layer.conn.state is ConnectionState.CAN_WRITE


@pytest.mark.parametrize("half", [False, True])
def test_passes_up_data_before_a_forged_record_and_nothing_after_it(ends: Ends, *, half: bool) -> None:
    """The alert about it is not sent after a half-close."""
    if half:
        ends.layer.conn.state = ConnectionState.CAN_READ
    ends.server.sendall(b"whole")
    whole = ends.encrypted()
    ends.server.sendall(b"forged")
    forged = bytearray(ends.encrypted())
    forged[-1] ^= 1
    ends.server.sendall(b"behind")
    behind = ends.encrypted()
    ends.inside.heard.clear()
    told = list(ends.layer.handle_event(events.DataReceived(ends.layer.conn, whole + forged + behind)))
    heard = [b"whole", "ConnectionClosed"]
    assert (ends.inside.heard, [type(command) for command in told]) == (heard, [commands.SendData] * (not half))
    assert ends.layer.conn.error
    assert ends.hear(behind) == []


def test_sends_all_encrypted_data_in_one_command(ends: Ends) -> None:
    (sent,) = ends.layer.send_data(BODY)
    assert isinstance(sent, commands.SendData)
    ends.server.bio_write(sent.data)
    assert b"".join(ends.server.recv(65_536) for _ in range(16)) == BODY


def test_install_replaces_mitmproxys_server_tls_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "ServerTLSLayer", tls.ServerTLSLayer)
    bulk_tls.install()
    assert tls.ServerTLSLayer is BulkServerTls


def test_a_failed_handshake_is_explained_in_our_words(ends: Ends) -> None:
    ends.layer.command_to_reply_to = commands.OpenConnection(ends.layer.conn)
    ends.inside.heard.clear()
    assert list(ends.layer._handshake_finished("tlsv13 alert certificate required")) == []
    assert (ends.inside.heard, ends.layer.tunnel_state) == (["OpenConnectionCompleted"], TunnelState.CLOSED)
