"""TLS on both sides: certificates from our CA for clients, and strict verification of servers."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import certifi
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct
from OpenSSL import SSL

from agent_sandbox.policy import canonical_host
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.tls.authority import Authority
from agent_sandbox.proxy.tunnel import Tunnel

CIPHERS = (
    b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    b"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)
HTTP1, HTTP2 = b"http/1.1", b"h2"
WRITE_IN_PARTS = 0x1  # SSL_MODE_ENABLE_PARTIAL_WRITE, with which pyOpenSSL writes each record in a separate call
RELEASE_BUFFERS = 0x10  # SSL_MODE_RELEASE_BUFFERS: an idle connection has none, which saves 13 KB
REMEMBERED_HOSTS = 512
RENEW_SECONDS = 24 * 3600


class TlsStart(Struct, kw_only=True):
    """A TLS handshake. A hook sets `connection` before it; without one, the proxy closes the connection.

    `http2` is whether the client speaks HTTP/2; only then may the server. `protocols`: what the client may get.
    """

    http2: bool = False
    protocols: tuple[bytes, ...] = (HTTP2,)
    connection: SSL.Connection | None = None


class ClientTls:
    """Terminates the client's TLS with a certificate for the host of the tunnel, whatever the SNI says."""

    def __init__(self, authority: Authority, *, now: Callable[[], datetime]) -> None:
        self._authority = authority
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._now = now
        self._contexts: OrderedDict[str, tuple[datetime, SSL.Context]] = OrderedDict()

    @hook
    def tls_start_client(self, start: TlsStart, tunnel: Tunnel) -> None:
        """Set the TLS object of a client."""
        connection = SSL.Connection(self._context(tunnel.host))
        connection.set_app_data(start.protocols)
        connection.set_accept_state()
        start.connection = connection

    @hook
    def tls_established_client(self, start: TlsStart, tunnel: Tunnel) -> None:
        """Raise ValueError if OpenSSL parsed a different SNI than our own parser did."""
        named = start.connection.get_servername() if start.connection else None
        if named is not None and canonical_host(named.decode("ascii")) != tunnel.host:
            raise ValueError(f"OpenSSL reads a server name other than {tunnel.host}")

    def _context(self, host: str) -> SSL.Context:
        known = self._contexts.get(host)
        now = self._now()
        # In either direction: if the clock was set back, a certificate might not be valid yet.
        if known is not None and abs((now - known[0]).total_seconds()) < RENEW_SECONDS:
            self._contexts.move_to_end(host)
            return known[1]
        context = _context(SSL.TLS_SERVER_METHOD)
        context.use_certificate(self._authority.leaf(host, self._key, now=now))
        context.use_privatekey(self._key)
        context.set_alpn_select_callback(_select_protocol)
        self._contexts[host] = (now, context)
        if len(self._contexts) > REMEMBERED_HOSTS:
            self._contexts.popitem(last=False)
        return context


def _none_besides() -> str:
    return ""


class ServerTls:
    """Starts TLS with a server. Trusts the CAs of certifi, of the system, of the files `extra`, and of the policy.

    `authorities` returns the CA certificates of the policy in force, as PEM; it is called for each connection.
    """

    def __init__(self, extra: Iterable[Path] = (), *, authorities: Callable[[], str] = _none_besides) -> None:
        self._extra = tuple(map(str, extra))
        self._authorities = authorities
        self._trusting = ("", self._trusting_context(""))

    @hook
    def tls_start_server(self, start: TlsStart, tunnel: Tunnel) -> None:
        """Set a TLS object that accepts only a certificate for the host of the tunnel."""
        pem = self._authorities()
        if pem != self._trusting[0]:
            self._trusting = (pem, self._trusting_context(pem))
        connection = SSL.Connection(self._trusting[1])
        _expect_host(connection, tunnel.host)
        connection.set_alpn_protos([HTTP2, HTTP1] if start.http2 else [HTTP1])
        connection.set_connect_state()
        start.connection = connection

    def _trusting_context(self, pem: str) -> SSL.Context:
        context = _context(SSL.TLS_CLIENT_METHOD)
        context.set_verify(SSL.VERIFY_PEER)
        context.set_default_verify_paths()
        for bundle in (certifi.where(), *self._extra):
            context.load_verify_locations(bundle)
        if pem:
            # OpenSSL reads bundles only from files.
            with NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as file:
                file.write(pem)
                file.flush()
                context.load_verify_locations(file.name)
        return context


def _context(method: int) -> SSL.Context:
    context = SSL.Context(method)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.clear_mode(WRITE_IN_PARTS)
    context.set_mode(RELEASE_BUFFERS)
    context.set_cipher_list(CIPHERS)
    # The cache would keep up to twenty thousand sessions per host.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE | SSL.OP_NO_RENEGOTIATION)
    return context


def _select_protocol(connection: SSL.Connection, offers: list[bytes]) -> Any:  # noqa: ANN401 - bytes, or pyOpenSSL's private sentinel
    return next(
        (protocol for protocol in connection.get_app_data() if protocol in offers), SSL.NO_OVERLAPPING_PROTOCOLS
    )


def _expect_host(connection: SSL.Connection, host: str) -> None:
    # pyOpenSSL has no public call to set the name to verify; mitmproxy does the same.
    lib: Any = SSL._lib  # type: ignore[attr-defined]  # noqa: SLF001
    parameters = lib.SSL_get0_param(connection._ssl)  # noqa: SLF001
    lib.X509_VERIFY_PARAM_set_hostflags(
        parameters, lib.X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | lib.X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
    )
    try:
        packed = ip_address(host).packed
    except ValueError:
        name = host.encode("ascii")
        connection.set_tlsext_host_name(name)
        done = lib.X509_VERIFY_PARAM_set1_host(parameters, name, len(name))
    else:
        done = lib.X509_VERIFY_PARAM_set1_ip(parameters, packed, len(packed))
    if done != 1:
        raise ValueError(f"OpenSSL does not accept {host!r} as the name to verify")
