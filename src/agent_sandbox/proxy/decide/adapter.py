"""Convert the head of a request to a request of the policy engine."""

from agent_sandbox.policy import Ambiguous, Policy, Request, parse_authority, parse_request
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import LENGTH
from agent_sandbox.proxy.wire.message import Fields, RequestHead, has_field


class MismatchError(Ambiguous):
    """The request names a different host than the connection it came over."""


def to_request(head: RequestHead, kept: Fields, tunnel: Tunnel, policy: Policy) -> Request:
    """Return the request of the policy engine for `head`, whose end-to-end fields are `kept`.

    In a tunnel, host and port are those that the tunnel was opened to. Raises `Ambiguous` if the request names others.
    """
    scheme = "https" if tunnel.carries is Carries.TLS else "http"
    host, port = (head.host, head.port) if tunnel.carries is Carries.PROXY else (tunnel.host, tunnel.port)
    for named in _authorities(head):
        _check(named, host, port, DEFAULT_PORTS[scheme])
    target = _ascii(head.target, "path")
    return parse_request(
        scheme=scheme,
        host=host,
        port=port,
        method=_ascii(head.method, "method"),
        target=target,
        headers=tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in kept),
        body_size=_body_size(head),
        encoded_slash=policy.takes_encoded_slash(host),
    )


def authority(request: Request) -> str:
    """Return the value for Host or :authority.

    >>> authority(parse_request(scheme="https", host="a.test", port=8443, method="GET", target="/"))
    'a.test:8443'
    """
    host = f"[{request.host}]" if ":" in request.host else request.host
    return host if request.port == DEFAULT_PORTS[request.scheme] else f"{host}:{request.port}"


def _body_size(head: RequestHead) -> int | None:
    """Return the size of the body in bytes, None if the headers do not give it."""
    lengths = [value for name, value in head.fields if name.lower() == b"content-length"]
    if not lengths:
        return None if head.is_http2 or has_field(head.fields, b"transfer-encoding") else 0
    if len(lengths) > 1 or not LENGTH.fullmatch(lengths[0]):
        raise Ambiguous("the Content-Length is not a single plain number")
    return int(lengths[0])


def _authorities(head: RequestHead) -> list[str]:
    hosts = [_ascii(value, "Host") for name, value in head.fields if name.lower() == b"host"]
    if head.is_http2:
        return [*filter(None, [_ascii(head.authority, ":authority")]), *hosts] or [""]
    if len(hosts) != 1:
        raise Ambiguous("not exactly one Host header")
    return hosts


def _check(named: str, host: str, port: int, default_port: int) -> None:
    if parse_authority(named, default_port=default_port) != (host, port):
        raise MismatchError(
            f"host_mismatch: the request names {named[:255]}, but its connection was opened to {host}:{port}"
        )


def _ascii(value: bytes, what: str) -> str:
    try:
        return value.decode("ascii")
    except UnicodeDecodeError:
        raise Ambiguous(f"the {what} is not ASCII") from None
