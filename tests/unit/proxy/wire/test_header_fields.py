import pytest

from agent_sandbox.policy import Ambiguous
from agent_sandbox.proxy.wire.header_fields import (
    NotWebSocketError,
    check_expect,
    end_to_end,
    forwarded,
    from_server,
    wants_websocket,
)
from agent_sandbox.proxy.wire.message import Fields, RequestHead


def request(*fields: tuple[bytes, bytes], method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> RequestHead:
    return RequestHead(method, b"/", version, fields)


def sent(head: RequestHead, *, websocket: bool = False) -> Fields:
    return forwarded(head, end_to_end(head), "a.test", websocket=websocket)


WEBSOCKET = (
    (b"Connection", b"keep-alive, Upgrade"),
    (b"Upgrade", b"WebSocket"),
    (b"Sec-WebSocket-Version", b"13"),
    (b"Sec-WebSocket-Key", b"x"),
)


def test_does_not_forward_hop_by_hop_and_method_override_fields() -> None:
    made = request(
        (b"Host", b"other.test"),
        (b"Accept", b"*/*"),
        (b"Connection", b"X-Secret, close"),
        (b"Proxy-Authorization", b"x"),
        (b"Sec-WebSocket-Extensions", b"permessage-deflate"),
        (b"X-HTTP-Method-Override", b"DELETE"),
    )
    wanted = ((b"Host", b"a.test"), (b"Connection", b"close"), (b"Accept", b"*/*"))
    assert sent(made) == wanted


def test_adds_no_connection_header_to_a_request_without_one() -> None:
    assert sent(request((b"A", b"b"))) == ((b"Host", b"a.test"), (b"A", b"b"))


def test_forwards_a_websocket_handshake_with_its_upgrade_fields() -> None:
    wanted = ((b"Host", b"a.test"), (b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), *WEBSOCKET[2:])
    assert sent(request(*WEBSOCKET), websocket=True) == wanted


def test_does_not_forward_the_host_header_of_an_http2_request() -> None:
    made = request((b"host", b"a.test"), (b"accept", b"*/*"), version=b"HTTP/2.0")
    assert sent(made) == ((b"accept", b"*/*"),)


@pytest.mark.parametrize(("fields", "wanted"), [((), False), (((b"Upgrade", b"h2c"),), False), (WEBSOCKET, True)])
def test_recognises_a_complete_websocket_handshake(fields: tuple[tuple[bytes, bytes], ...], wanted: bool) -> None:  # noqa: FBT001
    assert wants_websocket(request(*fields)) is wanted


def test_rejects_an_upgrade_to_another_protocol() -> None:
    with pytest.raises(NotWebSocketError) as caught:
        wants_websocket(request((b"Upgrade", b"foo")))
    assert str(caught.value) == "upgrade to 'foo' is not supported; the proxy speaks HTTP and WebSocket"


@pytest.mark.parametrize("field", [(b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")])
def test_rejects_a_websocket_handshake_with_a_body(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(NotWebSocketError) as caught:
        wants_websocket(request(*WEBSOCKET, field))
    assert str(caught.value) == "a WebSocket handshake with a body"


def test_accepts_a_websocket_handshake_with_content_length_0() -> None:
    assert wants_websocket(request(*WEBSOCKET, (b"Content-Length", b"0")))


@pytest.mark.parametrize("missing", range(4))
def test_rejects_an_incomplete_websocket_handshake(missing: int) -> None:
    fields = WEBSOCKET[:missing] + WEBSOCKET[missing + 1 :]
    if missing == 1:
        fields = (*fields, (b"Upgrade", b"websocket"))
        fields = tuple(field for field in fields if field[0] != b"Connection")
    with pytest.raises(NotWebSocketError, match="an incomplete WebSocket handshake"):
        wants_websocket(request(*fields))


def test_accepts_only_100_continue_in_expect() -> None:
    check_expect(request())
    check_expect(request((b"Expect", b"100-Continue")))
    with pytest.raises(Ambiguous, match="unknown Expect: '200-ok'"):
        check_expect(request((b"Expect", b"200-ok")))


def test_does_not_forward_alt_svc_and_other_proxy_bypassing_fields_from_servers() -> None:
    fields = ((b"Alt-Svc", b"h3"), (b"Upgrade", b"h2c"), (b"X-Agent-Sandbox", b"blocked"), (b"A", b"b"))
    assert from_server(fields, switching=False) == ((b"A", b"b"),)
    assert from_server(fields, switching=True) == ((b"Upgrade", b"h2c"), (b"A", b"b"))


def test_joins_cookie_fields_only_in_http2_requests() -> None:
    crumbs = ((b"cookie", b"a=1"), (b"x", b"y"), (b"Cookie", b"b=2"))
    assert end_to_end(request(*crumbs)) == crumbs
    assert end_to_end(request(*crumbs, version=b"HTTP/2.0")) == ((b"x", b"y"), (b"cookie", b"a=1; b=2"))
    assert end_to_end(request(*crumbs[:2], version=b"HTTP/2.0")) == crumbs[:2]
