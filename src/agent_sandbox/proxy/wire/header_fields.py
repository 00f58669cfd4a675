"""Select the header fields to forward: no hop-by-hop ones, and none that name another method, path or host."""

from mitmproxy import http

from agent_sandbox.policy import Ambiguous

Fields = tuple[tuple[bytes, bytes], ...]

STRIPPED = frozenset(
    {
        b"connection",
        # Read in place of the path or the host: by IIS, Symfony and Laminas; by frameworks behind a trusted proxy.
        b"forwarded",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        # Compressed messages: mitmproxy decompresses a packet whole, to a thousand times its size.
        b"sec-websocket-extensions",
        b"trailer",
        b"upgrade",
        b"x-forwarded-host",
        b"x-forwarded-server",
        b"x-host",
        b"x-http-host-override",
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
        b"x-original-host",
        b"x-original-url",
        b"x-rewrite-url",
    }
)
FROM_SERVERS = frozenset(
    {
        b"alt-svc",
        b"alternate-protocol",
        b"keep-alive",
        b"proxy-connection",
        b"sec-websocket-extensions",
        b"x-agent-sandbox",
    }
)


class NotWebSocketError(ValueError):
    """An upgrade to a protocol that the proxy does not support."""


def forwarded(request: http.Request, authority: str, *, websocket: bool) -> Fields:
    """Return the header fields to send to the server, with `authority` as Host."""
    kept = end_to_end(request)
    if request.is_http2:
        return kept
    extra: Fields = ((b"Host", authority.encode()),)
    if websocket:
        extra += ((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"))
    elif token := _persistence(request):
        extra += ((b"Connection", token),)
    return (*extra, *kept)


def end_to_end(request: http.Request) -> Fields:
    """Return the end-to-end fields of `request`: these are decided on and forwarded.

    HTTP/2 may split a cookie into several fields. They are joined here, as HTTP/1 requires.
    """
    kept = tuple((name, value) for name, value in request.data.headers.fields if _goes_on(name.lower()))
    crumbs = [value for name, value in kept if name.lower() == b"cookie"]
    if not request.is_http2 or len(crumbs) < 2:
        return kept
    return (*(field for field in kept if field[0].lower() != b"cookie"), (b"cookie", b"; ".join(crumbs)))


def wants_websocket(request: http.Request) -> bool:
    """Return whether `request` is a WebSocket handshake. Raises `NotWebSocketError` for any other upgrade.

    An offer of h2c, which some clients always send, is ignored and not forwarded.
    """
    headers = request.headers
    upgrade = headers.get("upgrade", "").strip().lower()
    if upgrade in ("", "h2c"):
        return False
    if upgrade != "websocket":
        raise NotWebSocketError(f"upgrade to {upgrade[:40]!r} is not supported; the proxy speaks HTTP and WebSocket")
    complete = (
        request.data.method == b"GET"
        and request.data.http_version == b"HTTP/1.1"
        and "upgrade" in _tokens(headers.get("connection", ""))
        and headers.get("sec-websocket-version") == "13"
        and bool(headers.get("sec-websocket-key"))
    )
    if not complete:
        raise NotWebSocketError("an incomplete WebSocket handshake")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        # Two servers could disagree on where the body ends and the frames begin.
        raise NotWebSocketError("a WebSocket handshake with a body")
    return True


def check_expect(request: http.Request) -> None:
    """Raise `Ambiguous` for an expectation other than 100-continue, the only one in HTTP."""
    expected = request.headers.get("expect", "100-continue").lower()
    if expected != "100-continue":
        raise Ambiguous(f"unknown Expect: {expected[:40]!a}")


def from_server(fields: Fields, *, switching: bool) -> Fields:
    """Return response fields without those that lead clients around the proxy (HTTP/3, h2c)."""
    dropped = FROM_SERVERS if switching else FROM_SERVERS | {b"upgrade"}
    return tuple((name, value) for name, value in fields if name.lower() not in dropped)


def _goes_on(name: bytes) -> bool:
    # Some servers treat `_` in names like `-`.
    return name != b"host" and name.replace(b"_", b"-") not in STRIPPED


def _tokens(value: str) -> list[str]:
    return [token.strip().lower() for token in value.split(",")]


def _persistence(request: http.Request) -> bytes:
    tokens = _tokens(request.headers.get("connection", ""))
    return next((token.encode() for token in ("close", "keep-alive") if token in tokens), b"")
