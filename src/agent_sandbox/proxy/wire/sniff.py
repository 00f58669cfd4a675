"""Detect the protocol in a tunnel from its first bytes. Only TLS and HTTP are allowed."""

import re

from agent_sandbox.policy import Ambiguous, canonical_host
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.proxy.tunnel import Carries
from agent_sandbox.proxy.wire.client_hello import BadHelloError, Hello, looks_like_tls, read_hello

HTTP_START = re.compile(rb"[A-Z]{1,32} [\x21-\x7e]+ HTTP/1\.[01]\r\n")
HTTP_SO_FAR = re.compile(
    rb"[A-Z]{1,32}(?: (?:[\x21-\x7e]+(?: (?:H(?:T(?:T(?:P(?:/(?:1(?:\.(?:[01]\r?)?)?)?)?)?)?)?)?)?)?)?"
)
LONGEST_LINE = 65_536


class RawTunnelError(ValueError):
    """The tunnel carries neither TLS nor HTTP, or malformed TLS."""


class WrongNameError(ValueError):
    """The SNI does not name the one host that the connection is for."""


def what_it_carries(data: bytes, host: str) -> Carries | None:
    r"""Return the protocol of a tunnel to `host`, None while there is too little data.

    Raises `RawTunnelError`, `WrongNameError`.

    >>> what_it_carries(b"GET / HTTP/1.1\r\n", "a.test")
    <Carries.HTTP: 'http'>
    """
    if looks_like_tls(data):
        return Carries.TLS if _hello_fits(data, host) else None
    if HTTP_START.match(data):
        return Carries.HTTP
    if len(data) <= LONGEST_LINE and HTTP_SO_FAR.fullmatch(data):
        return None
    raise RawTunnelError("neither TLS nor HTTP")


def name_in_hello(data: bytes) -> str | None:
    """Return the canonical host in the SNI of a ClientHello, None while the ClientHello is incomplete.

    Raises `RawTunnelError`, `WrongNameError`.
    """
    if not looks_like_tls(data):
        raise RawTunnelError("not TLS")
    hello = hello_in(data)
    if hello is None:
        return None
    if len(hello.names) != 1:
        doubt = "names no host" if not hello.names else "names more than one host"
        raise WrongNameError(f"sni_{'ambiguous' if hello.names else 'missing'}: the ClientHello {doubt}")
    try:
        host = canonical_host(hello.names[0])
    except Ambiguous as doubt:
        raise WrongNameError(f"sni_ambiguous: {doubt}") from doubt
    if is_address(host):
        raise WrongNameError("sni_ambiguous: the ClientHello names an IP address instead of a host name")
    return host


def _hello_fits(data: bytes, host: str) -> bool:
    hello = hello_in(data)
    if hello is None:
        return False
    _check_name(hello, host)
    return True


def hello_in(data: bytes) -> Hello | None:
    """Return the ClientHello in `data`, None while it is incomplete. Raises `RawTunnelError` if it is malformed."""
    try:
        return read_hello(data)
    except BadHelloError as error:
        raise RawTunnelError(f"malformed ClientHello: {error}") from error


def _check_name(hello: Hello, host: str) -> None:
    if not hello.names:
        if is_address(host):
            return
        raise WrongNameError(f"sni_missing: the ClientHello names no host, but the tunnel was opened to {host}")
    if len(hello.names) > 1:
        raise WrongNameError("sni_ambiguous: the ClientHello names more than one host")
    named = hello.names[0]
    if is_address(host):
        raise WrongNameError(
            f"sni_mismatch: the ClientHello names {named[:255]}, but the tunnel was opened to the address {host}"
        )
    try:
        same = canonical_host(named) == host
    except Ambiguous as doubt:
        raise WrongNameError(f"sni_ambiguous: {doubt}") from doubt
    if not same:
        raise WrongNameError(f"sni_mismatch: the ClientHello names {named[:255]}, but the tunnel was opened to {host}")
