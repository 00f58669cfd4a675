"""Select the header fields to forward: no hop-by-hop ones, and none that name another method, path or host."""

from agent_sandbox.policy import Ambiguous
from agent_sandbox.proxy.wire.message import Fields, RequestHead, has_field, value_of

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
# The Host that is sent names the decided host.
DROPPED = STRIPPED | {b"host"}
# Some servers treat `_` in names like `-`.
FOLDED = bytes(range(256)).lower().replace(b"_", b"-")
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
FROM_ORDINARY_RESPONSES = FROM_SERVERS | {b"upgrade"}


class NotWebSocketError(ValueError):
    """An upgrade to a protocol that the proxy does not support."""


def forwarded(head: RequestHead, kept: Fields, authority: str, *, websocket: bool) -> Fields:
    """Return the header fields to send to the server: `kept`, the end-to-end ones, with `authority` as Host."""
    if head.is_http2:
        return kept
    extra: Fields = ((b"Host", authority.encode()),)
    if websocket:
        extra += ((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"))
    elif token := _persistence(head):
        extra += ((b"Connection", token),)
    return (*extra, *kept)


def end_to_end(head: RequestHead) -> Fields:
    """Return the end-to-end fields of a request: these are decided on and forwarded.

    HTTP/2 may split a cookie into several fields. They are joined here, as HTTP/1 requires.
    """
    kept = tuple([field for field in head.fields if field[0].translate(FOLDED) not in DROPPED])
    if not head.is_http2:
        return kept
    crumbs = [value for name, value in kept if name.lower() == b"cookie"]
    if len(crumbs) < 2:
        return kept
    return (*(field for field in kept if field[0].lower() != b"cookie"), (b"cookie", b"; ".join(crumbs)))


def wants_websocket(head: RequestHead) -> bool:
    """Return whether a request is a WebSocket handshake. Raises `NotWebSocketError` for any other upgrade.

    An offer of h2c, which some clients always send, is ignored and not forwarded.
    """
    fields = head.fields
    upgrade = value_of(fields, b"upgrade").strip().lower()
    if upgrade in ("", "h2c"):
        return False
    if upgrade != "websocket":
        raise NotWebSocketError(f"upgrade to {upgrade[:40]!r} is not supported; the proxy speaks HTTP and WebSocket")
    complete = (
        head.method == b"GET"
        and head.version == b"HTTP/1.1"
        and "upgrade" in _tokens(value_of(fields, b"connection"))
        and value_of(fields, b"sec-websocket-version") == "13"
        and bool(value_of(fields, b"sec-websocket-key"))
    )
    if not complete:
        raise NotWebSocketError("an incomplete WebSocket handshake")
    if value_of(fields, b"content-length", "0") != "0" or has_field(fields, b"transfer-encoding"):
        # Two servers could disagree on where the body ends and the frames begin.
        raise NotWebSocketError("a WebSocket handshake with a body")
    return True


def check_expect(head: RequestHead) -> None:
    """Raise `Ambiguous` for an expectation other than 100-continue, the only one in HTTP."""
    expected = value_of(head.fields, b"expect", "100-continue").lower()
    if expected != "100-continue":
        raise Ambiguous(f"unknown Expect: {expected[:40]!a}")


def from_server(fields: Fields, *, switching: bool) -> Fields:
    """Return response fields without those that lead clients around the proxy (HTTP/3, h2c)."""
    dropped = FROM_SERVERS if switching else FROM_ORDINARY_RESPONSES
    return tuple([field for field in fields if field[0].lower() not in dropped])


def _tokens(value: str) -> list[str]:
    return [token.strip().lower() for token in value.split(",")]


def _persistence(head: RequestHead) -> bytes:
    tokens = _tokens(value_of(head.fields, b"connection"))
    return next((token.encode() for token in ("close", "keep-alive") if token in tokens), b"")
