from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from OpenSSL import SSL

from agent_sandbox.proxy.tls import contexts as subject
from agent_sandbox.proxy.tls.authority import Authority, load_authority, now_utc
from agent_sandbox.proxy.tls.contexts import HTTP1, ClientTls, ServerTls, TlsStart
from agent_sandbox.proxy.tunnel import Carries, Tunnel


def tunnel(host: str) -> Tunnel:
    return Tunnel(client="", carries=Carries.TLS, host=host, port=443)


def talk(one: SSL.Connection, other: SSL.Connection) -> None:
    """Pass the bytes of a handshake between both sides until both are done."""
    done: set[int] = set()
    for turn in range(12):
        side, peer = (one, other) if turn % 2 == 0 else (other, one)
        try:
            side.do_handshake()
            done.add(turn % 2)
        except SSL.WantReadError:
            pass
        try:
            peer.bio_write(side.bio_read(65_536))
        except SSL.WantReadError:
            if len(done) == 2:
                return


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_authority(tmp_path, now=now_utc())


def accepting(
    authority: Authority,
    host: str,
    *,
    client_tls: ClientTls | None = None,
    protocols: tuple[bytes, ...] = (HTTP1,),
) -> SSL.Connection:
    begun = TlsStart(protocols=protocols)
    (client_tls or ClientTls(authority, now=now_utc)).tls_start_client(begun, tunnel(host))
    assert begun.connection
    return begun.connection


def connecting(authority: Authority, folder: Path, host: str, *, http2: bool = False) -> SSL.Connection:
    (folder / "trusted.pem").write_bytes(authority.pem())
    begun = TlsStart(http2=http2)
    ServerTls([folder / "trusted.pem"]).tls_start_server(begun, tunnel(host))
    assert begun.connection
    return begun.connection


@pytest.mark.parametrize("host", ["a.test", "203.0.113.7", "2001:db8::1"])
def test_client_and_server_complete_a_handshake_for_the_decided_host(
    authority: Authority, tmp_path: Path, host: str
) -> None:
    server, client = accepting(authority, host), connecting(authority, tmp_path, host)
    talk(client, server)
    assert {side.get_state_string() for side in (client, server)} == {b"SSL negotiation finished successfully"}
    certificate: Any = client.get_peer_certificate(as_cryptography=True)
    certificate.verify_directly_issued_by(authority.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == [host]


@pytest.mark.parametrize(("http2", "wanted"), [(True, b"h2"), (False, b"http/1.1")])
def test_offers_the_server_the_protocol_of_the_client(
    authority: Authority, tmp_path: Path, *, http2: bool, wanted: bytes
) -> None:
    client = connecting(authority, tmp_path, "a.test", http2=http2)
    server = accepting(authority, "a.test", protocols=(b"h2", b"http/1.1"))
    talk(client, server)
    assert (client.get_alpn_proto_negotiated(), server.get_alpn_proto_negotiated()) == (wanted, wanted)


def test_sends_several_tls_records_in_one_call(authority: Authority, tmp_path: Path) -> None:
    server, client = accepting(authority, "a.test"), connecting(authority, tmp_path, "a.test")
    talk(client, server)
    body = bytes(range(256)) * 1024  # sixteen records
    for side, peer in ((client, server), (server, client)):
        assert side.send(body) == len(body)
        peer.bio_write(side.bio_read(1024 * 1024))
        assert b"".join(peer.recv(65_536) for _ in range(16)) == body


@pytest.mark.parametrize(("certified", "wanted"), [("b.test", "a.test"), ("203.0.113.8", "203.0.113.7")])
def test_rejects_a_certificate_for_another_host(
    authority: Authority, tmp_path: Path, certified: str, wanted: str
) -> None:
    server, client = accepting(authority, certified), connecting(authority, tmp_path, wanted)
    with pytest.raises(SSL.Error, match="certificate verify failed"):
        talk(client, server)


def test_trusts_a_ca_only_while_the_policy_in_force_contains_the_ca(authority: Authority) -> None:
    force = [authority.pem().decode()]
    server_tls = ServerTls(authorities=lambda: force[-1])

    def handshake() -> None:
        begun = TlsStart()
        server_tls.tls_start_server(begun, tunnel("a.test"))
        assert begun.connection
        talk(begun.connection, accepting(authority, "a.test"))

    handshake()
    context = server_tls._trusting
    handshake()
    assert server_tls._trusting is context
    force.append("")
    with pytest.raises(SSL.Error, match="certificate verify failed"):
        handshake()


def test_reuses_the_certificate_of_a_host_but_not_after_two_days(authority: Authority) -> None:
    times = [datetime(2026, 1, 1, tzinfo=UTC)]
    client_tls = ClientTls(authority, now=lambda: times[-1])
    first = client_tls._context("a.test")
    assert client_tls._context("a.test") is first
    times.append(times[0] + timedelta(days=2))
    assert client_tls._context("a.test") is not first


def test_makes_a_new_certificate_if_the_clock_was_set_back(authority: Authority) -> None:
    times = [datetime(2027, 1, 1, tzinfo=UTC)]
    client_tls = ClientTls(authority, now=lambda: times[-1])
    ahead = client_tls._context("a.test")
    times.append(times[0] - timedelta(days=365))
    assert client_tls._context("a.test") is not ahead


def test_forgets_the_least_recently_used_host(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "REMEMBERED_HOSTS", 2)
    client_tls = ClientTls(authority, now=now_utc)
    for host in ("a.test", "b.test", "a.test", "c.test"):
        client_tls._context(host)
    assert list(client_tls._contexts) == ["a.test", "c.test"]


def test_forgotten_hosts_free_their_memory(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "REMEMBERED_HOSTS", 20)
    client_tls = ClientTls(authority, now=now_utc)
    before = 0
    for number in range(300):  # if they were kept, they would take 22 KB each
        client_tls._context(f"{number}.test")
        before = before or (resident() if number == 100 else 0)
    assert resident() - before < 2_000_000


def resident() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024


def test_rejects_a_tunnel_whose_host_differs_from_the_name_that_openssl_reads(
    authority: Authority, tmp_path: Path
) -> None:
    client_tls = ClientTls(authority, now=now_utc)
    server, client = accepting(authority, "a.test", client_tls=client_tls), connecting(authority, tmp_path, "a.test")
    talk(client, server)
    begun = TlsStart()
    begun.connection = server
    client_tls.tls_established_client(begun, tunnel("a.test"))
    with pytest.raises(ValueError, match=r"OpenSSL reads a server name other than b\.test"):
        client_tls.tls_established_client(begun, tunnel("b.test"))


def test_accepts_a_tunnel_without_a_server_name(authority: Authority) -> None:
    ClientTls(authority, now=now_utc).tls_established_client(TlsStart(), tunnel("203.0.113.7"))


def test_raises_an_error_if_openssl_does_not_accept_the_host_to_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    lib: Any = SSL._lib  # type: ignore[attr-defined]

    class Unwilling:
        """An OpenSSL that accepts no host."""

        def __getattr__(self, name: str) -> object:
            return (lambda *_: 0) if name == "X509_VERIFY_PARAM_set1_host" else getattr(lib, name)

    connection = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
    monkeypatch.setattr(SSL, "_lib", Unwilling())
    with pytest.raises(ValueError, match=r"OpenSSL does not accept 'a\.test' as the name to verify"):
        subject._expect_host(connection, "a.test")


@pytest.mark.parametrize(
    ("protocols", "offers", "wanted"),
    [
        ((b"h2", b"http/1.1"), [b"http/1.1", b"h2"], b"h2"),
        ((b"h2", b"http/1.1"), [b"http/1.1"], b"http/1.1"),
        ((b"http/1.1",), [b"h2", b"http/1.1"], b"http/1.1"),
        ((b"http/1.1",), [b"h2"], b""),
        ((b"x",), [b"h2", b"http/1.1"], b""),
    ],
)
def test_a_client_gets_the_first_protocol_that_both_sides_speak(
    authority: Authority, tmp_path: Path, protocols: tuple[bytes, ...], offers: list[bytes], wanted: bytes
) -> None:
    begun = TlsStart(protocols=protocols)
    ClientTls(authority, now=now_utc).tls_start_client(begun, tunnel("a.test"))
    client = connecting(authority, tmp_path, "a.test")
    client.set_alpn_protos(offers)
    assert begun.connection
    talk(client, begun.connection)
    assert client.get_alpn_proto_negotiated() == wanted


def test_disables_the_tls_session_cache_for_clients(authority: Authority) -> None:
    begun = TlsStart()
    ClientTls(authority, now=now_utc).tls_start_client(begun, tunnel("a.test"))
    assert begun.connection
    assert begun.connection.get_context().get_session_cache_mode() == SSL.SESS_CACHE_OFF


@pytest.mark.parametrize("method", [SSL.TLS_SERVER_METHOD, SSL.TLS_CLIENT_METHOD])
def test_contexts_release_the_buffers_of_idle_connections(method: int) -> None:
    assert subject._context(method).set_mode(0) & subject.RELEASE_BUFFERS
