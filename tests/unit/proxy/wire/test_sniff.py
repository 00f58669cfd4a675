import pytest

from agent_sandbox.proxy.tunnel import Carries
from agent_sandbox.proxy.wire.sniff import RawTunnelError, WrongNameError, name_in_hello, what_it_carries
from client_hellos import hello
from table_tests import each


@pytest.mark.parametrize("name", [b"a.test", b"A.Test", b"a.test."])
def test_accepts_tls_whose_sni_is_the_host_of_the_tunnel(name: bytes) -> None:
    assert what_it_carries(hello(name), "a.test") is Carries.TLS


def test_accepts_tls_without_sni_in_a_tunnel_to_an_address() -> None:
    assert what_it_carries(hello(), "203.0.113.7") is Carries.TLS


@each("data", [b"\x16", b"\x16\x03\x01\x01", b"G", b"GET ", b"GET /x", b"GET / HTT", b"GET / HTTP/1.1\r"])
def test_waits_for_more_bytes_if_the_protocol_is_not_clear_yet(data: bytes) -> None:
    assert what_it_carries(data, "a.test") is None


def test_recognises_http_by_its_first_line() -> None:
    assert what_it_carries(b"GET / HTTP/1.1\r\nHost:", "a.test") is Carries.HTTP


@each(
    ("names", "host", "reason"),
    [
        ([], "a.test", "sni_missing: the ClientHello names no host, but the tunnel was opened to a.test"),
        ([b"a.test", b"a.test"], "a.test", "sni_ambiguous: the ClientHello names more than one host"),
        ([b"b.test"], "a.test", "sni_mismatch: the ClientHello names b.test, but the tunnel was opened to a.test"),
        (
            [b"a.test"],
            "203.0.113.7",
            "sni_mismatch: the ClientHello names a.test, but the tunnel was opened to the address 203.0.113.7",
        ),
        ([b"a..test"], "a.test", "sni_ambiguous: not a host name: 'a..test'"),
    ],
)
def test_rejects_tls_whose_sni_is_not_the_host_of_the_tunnel(names: list[bytes], host: str, reason: str) -> None:
    with pytest.raises(WrongNameError) as caught:
        what_it_carries(hello(*names), host)
    assert reason == str(caught.value)


@each(
    ("data", "reason"),
    [
        (b"SSH-2.0-x", "neither TLS nor HTTP"),
        (b"GET / HTTP/1.1\n", "neither TLS nor HTTP"),
        (b"GET  /", "neither TLS nor HTTP"),
        (b"GET /" + b"x" * 70_000, "neither TLS nor HTTP"),
        (b"\x16\x03\x01\x00\x00", "malformed ClientHello: not a TLS handshake record"),
    ],
)
def test_rejects_protocols_other_than_tls_and_http(data: bytes, reason: str) -> None:
    with pytest.raises(RawTunnelError) as caught:
        what_it_carries(data, "a.test")
    assert reason == str(caught.value)


@pytest.mark.parametrize("name", [b"a.test", b"A.Test", b"a.test."])
def test_returns_the_canonical_name_in_a_client_hello(name: bytes) -> None:
    assert name_in_hello(hello(name)) == "a.test"


def test_waits_for_the_rest_of_a_client_hello() -> None:
    assert name_in_hello(hello(b"a.test")[:-1]) is None


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "sni_missing: the ClientHello names no host"),
        ([b"a.test", b"b.test"], "sni_ambiguous: the ClientHello names more than one host"),
        ([b"a..test"], "sni_ambiguous: not a host name: 'a..test'"),
        ([b"203.0.113.7"], "sni_ambiguous: the ClientHello names an IP address instead of a host name"),
    ],
)
def test_rejects_a_client_hello_that_does_not_name_exactly_one_host(names: list[bytes], reason: str) -> None:
    with pytest.raises(WrongNameError) as caught:
        name_in_hello(hello(*names))
    assert reason == str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "not TLS"),
        (
            b"\x16\x03\x01\x00\x04\x02\0\0\0",
            "malformed ClientHello: the first TLS message is not a ClientHello",
        ),
    ],
)
def test_rejects_bytes_that_are_not_a_client_hello(data: bytes, reason: str) -> None:
    with pytest.raises(RawTunnelError) as caught:
        name_in_hello(data)
    assert reason == str(caught.value)
