import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Ambiguous, Policy, Request, parse_request
from agent_sandbox.proxy.decide.adapter import MismatchError, authority, to_request
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.header_fields import end_to_end
from agent_sandbox.proxy.wire.message import RequestHead
from table_tests import each

POLICY = Policy.deny_all("x")
TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)


def asked(
    *hosts: bytes, target: bytes = b"/x?y", version: bytes = b"HTTP/1.1", named: bytes = b"", method: bytes = b"GET"
) -> RequestHead:
    fields = tuple((b"Host", host) for host in hosts)
    return RequestHead(method, target, version, fields, named, "p.test", 8080, b"http")


def read(head: RequestHead, *fields: tuple[bytes, bytes], tunnel: Tunnel = TUNNEL) -> Request:
    head = replace(head, fields=(*head.fields, *fields))
    return to_request(head, end_to_end(head), tunnel, POLICY)


def test_a_request_in_a_tunnel_has_the_tunnels_host_and_port() -> None:
    got = read(asked(b"A.test"))
    assert (got.scheme, got.host, got.port, got.method, got.target) == ("https", "a.test", 443, "GET", "/x?y")
    assert got.headers == ()


def test_a_request_to_the_proxy_has_the_host_that_it_names() -> None:
    got = read(asked(b"p.test:8080"), tunnel=Tunnel(client="", carries=Carries.PROXY))
    assert (got.scheme, got.host, got.port) == ("http", "p.test", 8080)


@pytest.mark.parametrize(
    ("hosts", "named"), [((), b"a.test"), ((b"a.test",), b""), ((b"a.test", b"a.test"), b"a.test:443")]
)
def test_accepts_the_host_of_an_http2_request_in_either_or_both_places(hosts: tuple[bytes, ...], named: bytes) -> None:
    assert read(asked(*hosts, version=b"HTTP/2.0", named=named)).host == "a.test"


@pytest.mark.parametrize("hosts", [(), (b"a.test", b"a.test")])
def test_http1_requires_exactly_one_host_header(hosts: tuple[bytes, ...]) -> None:
    with pytest.raises(Ambiguous, match="not exactly one Host header"):
        read(asked(*hosts))


@pytest.mark.parametrize(("hosts", "named"), [((), b""), ((), b"b.test"), ((b"b.test",), b"a.test"), ((b"",), b"")])
def test_refuses_an_http2_request_with_a_different_host_or_none(hosts: tuple[bytes, ...], named: bytes) -> None:
    with pytest.raises(Ambiguous):
        read(asked(*hosts, version=b"HTTP/2.0", named=named))


def test_the_reason_of_a_host_mismatch_names_both_hosts() -> None:
    with pytest.raises(MismatchError) as caught:
        read(asked(b"b.test"))
    wanted = "host_mismatch: the request names b.test, but its connection was opened to a.test:443"
    assert wanted == str(caught.value)


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (asked(b"\xff"), "the Host is not ASCII"),
        (asked(b"a.test", target=b"/\xff"), "the path is not ASCII"),
        (asked(b"a.test", method=b"G\xff"), "the method is not ASCII"),
        (asked(named=b"\xff", version=b"HTTP/2.0"), "the :authority is not ASCII"),
    ],
)
def test_refuses_bytes_that_are_not_ascii(head: RequestHead, problem: str) -> None:
    with pytest.raises(Ambiguous) as caught:
        read(head)
    assert problem == str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "host", "port", "wanted"),
    [("https", "a.test", 443, "a.test"), ("http", "a.test", 8080, "a.test:8080"), ("http", "::1", 80, "[::1]")],
)
def test_authority_omits_the_default_port(scheme: str, host: str, port: int, wanted: str) -> None:
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
def test_reads_the_body_size_from_the_head(fields: list[tuple[bytes, bytes]], version: bytes, size: int | None) -> None:
    assert read(asked(b"a.test", version=version), *fields).body_size == size


@pytest.mark.parametrize("lengths", [(b"1", b"1"), (b"+1",), (b"1, 1",), (b"\xff",)])
def test_refuses_an_ambiguous_content_length(lengths: tuple[bytes, ...]) -> None:
    fields = [(b"content-length", length) for length in lengths]
    with pytest.raises(Ambiguous, match="the Content-Length is not a single plain number"):
        read(asked(named=b"a.test", version=b"HTTP/2.0"), *fields)
