import pytest
from msgspec.structs import replace

from agent_sandbox.policy import parse_request
from agent_sandbox.proxy.connection.sharing import asks_for_own, may_be_shared, seconds_to_keep
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.http1_head import parse_response
from agent_sandbox.proxy.wire.message import RequestHead
from lane_stage import PLAIN, YES

HEAD = RequestHead(b"GET", b"/x", b"HTTP/1.1", ((b"Host", b"a.test"),), b"", "a.test", 80, b"http")
REQUEST = parse_request(scheme="http", host="a.test", port=80, method="GET", target="/x")


def allowed(method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> Exchange:
    head = replace(HEAD, method=method, version=version)
    exchange = open_exchange(head, PLAIN, started=0.0)
    exchange.allow(YES, REQUEST, head)
    return exchange


def shared(
    exchange: Exchange, answer: str = "HTTP/1.1 200 OK", *, has_body: bool = False, is_early: bool = False
) -> bool:
    head = parse_response(answer.replace("\n", "\r\n").encode() + b"\r\n\r\n", Limits())
    return may_be_shared(exchange, head, has_body=has_body, is_early=is_early)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("GET", "HTTP/1.1 200 OK\nContent-Length: 2"),
        ("GET", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked"),
        ("GET", 'HTTP/1.1 401 No\nContent-Length: 0\nWWW-Authenticate: Basic realm="x", Bearer'),
        ("HEAD", "HTTP/1.1 200 OK\nContent-Length: 0"),
        ("GET", "HTTP/1.1 304 Not Modified\nETag: x"),
        ("DELETE", "HTTP/1.1 204 No Content"),
        ("GET", "HTTP/1.1 407 No\nContent-Length: 0\nX-Negotiate: ntlm"),
    ],
)
def test_shares_the_connection_after_an_ordinary_exchange(method: str, answer: str) -> None:
    assert shared(allowed(method.encode()), answer)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("GET", "HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 2"),
        ("HEAD", "HTTP/1.1 200 OK\nContent-Length: 2"),
        ("head", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked"),
        ("GET", "HTTP/1.1 304 Not Modified\nContent-Length: 2"),
        ("GET", "HTTP/1.1 101 Switching Protocols"),
        ("GET", "HTTP/1.1 204 No Content\nContent-Length: 2"),
        ("GET", "HTTP/1.1 204 No Content\nTransfer-Encoding: chunked"),
        ("GET", "HTTP/1.1 401 No\nContent-Length: 0\nWWW-Authenticate: NTLM"),
        ("GET", "HTTP/1.1 401 No\nContent-Length: 0\nWWW-Authenticate: Basic, negotiate abc="),
        ("GET", "HTTP/1.1 407 No\nContent-Length: 0\nProxy_Authenticate: Kerberos"),
        ("GET", "HTTP/1.1 200 OK\nContent-Length: 0\nPersistent-Auth: true"),
        ("GET", "HTTP/1.1 401 No\nContent-Length: 0\nProxy-Support: Session-Based-Authentication"),
    ],
)
def test_does_not_share_the_connection_after_a_response_that_is_unsafe_to_share_after(method: str, answer: str) -> None:
    assert not shared(allowed(method.encode()), answer)


def test_does_not_share_after_granted_upgraded_aborted_http1_0_or_early_exchanges() -> None:
    granted, upgrade, aborted = allowed(), allowed(), allowed()
    granted.waiting = Waiting(leave=lambda: None, grant=object())  # type: ignore[arg-type] # only whether there is one
    upgrade.websocket = True
    aborted.abort(aborted.denial("no"))
    assert not any(map(shared, (granted, upgrade, aborted, allowed(b"GET", b"HTTP/1.0"))))
    assert not shared(allowed(), is_early=True)


@pytest.mark.parametrize(
    ("method", "expected"), [(b"POST", True), (b"GET", False), (b"DELETE", False), (b"post", False)]
)
def test_shares_the_connection_after_a_request_with_a_body_only_for_post(method: bytes, *, expected: bool) -> None:
    assert shared(allowed(method), has_body=True) is expected


@pytest.mark.parametrize(
    ("value", "own"),
    [
        (b"Bearer abc", False),
        (b"basic YTpi", False),
        (b"AWS4-HMAC-SHA256 Credential=x", False),
        (b"NTLM TlRMTVNTUAAB", True),
        (b"Negotiate YII=", True),
        (b"Kerberos abc", True),
        (b"Something-New abc", True),
        (b"", True),
        (b"\xffBearer x", True),
    ],
)
@pytest.mark.parametrize("name", [b"Authorization", b"Proxy-Authorization", b"proxy_authorization"])
def test_recognises_credentials_that_can_authenticate_the_connection(name: bytes, value: bytes, *, own: bool) -> None:
    fields = ((b"Host", b"a.test"), (name, value))
    assert asks_for_own(fields) is own


def test_a_request_without_credentials_shares_its_connection() -> None:
    assert not asks_for_own(((b"Host", b"a.test"),))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"timeout=5, max=100", 4.0),
        (b"max=1,Timeout = 30", 29.0),
        (b'timeout="0"', -1.0),
        (b"max=5", float("inf")),
        (b"xtimeout=5", float("inf")),
    ],
)
def test_reads_the_keep_alive_timeout_of_the_server(value: bytes, seconds: float) -> None:
    assert seconds_to_keep(((b"Keep-Alive", value),)) == seconds
