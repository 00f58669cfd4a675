from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mitmproxy import http
from mitmproxy.test import tflow

from agent_sandbox.policy import Ambiguous, Policy, parse_request
from agent_sandbox.proxy.decide.adapter import MismatchError, authority, to_request
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from table_tests import each

if TYPE_CHECKING:
    from agent_sandbox.policy import Request

POLICY = Policy.deny_all("x")
TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)


def flow(
    *hosts: bytes, target: bytes = b"/x?y", version: bytes = b"HTTP/1.1", named: bytes = b"", method: bytes = b"GET"
) -> http.HTTPFlow:
    made = tflow.tflow()
    data = made.request.data
    data.headers = http.Headers([(b"Host", host) for host in hosts])
    data.path, data.http_version, data.authority, data.method = target, version, named, method
    data.host, data.port = "p.test", 8080
    return made


def read(made: http.HTTPFlow, tunnel: Tunnel = TUNNEL) -> Request:
    return to_request(made, tunnel, POLICY)


def test_a_request_goes_where_its_tunnel_goes() -> None:
    got = read(flow(b"A.test"))
    assert (got.scheme, got.host, got.port, got.method, got.target) == ("https", "a.test", 443, "GET", "/x?y")
    assert got.headers == ()


def test_a_request_to_the_proxy_names_its_own_way() -> None:
    got = read(flow(b"p.test:8080"), Tunnel(client="", carries=Carries.PROXY))
    assert (got.scheme, got.host, got.port) == ("http", "p.test", 8080)


@pytest.mark.parametrize(
    ("hosts", "named"), [((), b"a.test"), ((b"a.test",), b""), ((b"a.test", b"a.test"), b"a.test:443")]
)
def test_an_http2_request_may_say_its_host_in_both_places(hosts: tuple[bytes, ...], named: bytes) -> None:
    assert read(flow(*hosts, version=b"HTTP/2.0", named=named)).host == "a.test"


@pytest.mark.parametrize("hosts", [(), (b"a.test", b"a.test")])
def test_http1_has_exactly_one_host(hosts: tuple[bytes, ...]) -> None:
    with pytest.raises(Ambiguous, match="not exactly one Host header"):
        read(flow(*hosts))


@pytest.mark.parametrize(("hosts", "named"), [((), b""), ((), b"b.test"), ((b"b.test",), b"a.test"), ((b"",), b"")])
def test_an_http2_request_for_somebody_else_or_nobody_is_refused(hosts: tuple[bytes, ...], named: bytes) -> None:
    with pytest.raises(Ambiguous):
        read(flow(*hosts, version=b"HTTP/2.0", named=named))


def test_another_host_than_the_tunnels_is_named() -> None:
    with pytest.raises(MismatchError) as caught:
        read(flow(b"b.test"))
    wanted = "host_mismatch: the request names b.test, but its connection was opened to a.test:443"
    assert wanted == str(caught.value)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (flow(b"\xff"), "the Host is not ASCII"),
        (flow(b"a.test", target=b"/\xff"), "the path is not ASCII"),
        (flow(b"a.test", method=b"G\xff"), "the method is not ASCII"),
        (flow(named=b"\xff", version=b"HTTP/2.0"), "the :authority is not ASCII"),
    ],
)
def test_bytes_that_are_no_ascii_are_refused(made: http.HTTPFlow, problem: str) -> None:
    with pytest.raises(Ambiguous) as caught:
        read(made)
    assert problem == str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "host", "port", "wanted"),
    [("https", "a.test", 443, "a.test"), ("http", "a.test", 8080, "a.test:8080"), ("http", "::1", 80, "[::1]")],
)
def test_an_authority_leaves_out_the_port_that_goes_without_saying(
    scheme: str, host: str, port: int, wanted: str
) -> None:
    assert authority(parse_request(scheme=scheme, host=host, port=port, method="GET", target="/")) == wanted


@each(
    ("fields", "version", "size"),
    [
        ([], b"HTTP/1.1", 0),
        ([(b"Content-Length", b"12")], b"HTTP/1.1", 12),
        ([(b"Transfer-Encoding", b"chunked")], b"HTTP/1.1", None),
        ([(b"content-length", b"12")], b"HTTP/2.0", 12),
        ([], b"HTTP/2.0", None),
    ],
)
def test_the_size_of_a_body_is_known_where_its_head_says_it(
    fields: list[tuple[bytes, bytes]], version: bytes, size: int | None
) -> None:
    made = flow(b"a.test", version=version)
    made.request.data.headers = http.Headers([*made.request.data.headers.fields, *fields])
    assert read(made).body_size == size


@pytest.mark.parametrize("lengths", [(b"1", b"1"), (b"+1",), (b"1, 1",), (b"\xff",)])
def test_a_length_that_can_be_read_in_two_ways_is_doubtful(lengths: tuple[bytes, ...]) -> None:
    made = flow(named=b"a.test", version=b"HTTP/2.0")
    made.request.data.headers = http.Headers([(b"content-length", length) for length in lengths])
    with pytest.raises(Ambiguous, match="the Content-Length is not a single plain number"):
        read(made)


def test_what_is_not_forwarded_is_not_decided_on() -> None:
    made = flow(b"a.test")
    fields = [(b"X-Method-Override", b"PUT"), (b"Connection", b"x-kept"), (b"X-Kept", b"1"), (b"x-kept", b"2")]
    made.request.data.headers = http.Headers([*made.request.data.headers.fields, *fields])
    assert read(made).headers == (("x-kept", "1"), ("x-kept", "2"))


def test_the_crumbs_of_a_cookie_are_one_cookie() -> None:
    made = flow(named=b"a.test", version=b"HTTP/2.0")
    made.request.data.headers = http.Headers([(b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2")])
    assert read(made).headers == (("x", "y"), ("cookie", "a=1; b=2"))
