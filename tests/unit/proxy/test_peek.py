from __future__ import annotations

import pytest

from agent_sandbox.proxy.peek import RawTunnelError, WrongNameError, what_it_carries
from agent_sandbox.proxy.tunnel import Carries


def hello(*names: bytes) -> bytes:
    listed = b"".join(b"\0" + len(name).to_bytes(2) + name for name in names)
    content = len(listed).to_bytes(2) + listed
    extensions = b"\0\0" + len(content).to_bytes(2) + content if names else b""
    body = b"\x03\x03" + bytes(32) + b"\0\0\x02\x13\x01\x01\0" + len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


@pytest.mark.parametrize("name", [b"a.test", b"A.Test", b"a.test."])
def test_tls_for_the_tunnels_host_goes_on(name: bytes) -> None:
    assert what_it_carries(hello(name), "a.test") is Carries.TLS


def test_tls_to_an_address_names_nobody() -> None:
    assert what_it_carries(hello(), "203.0.113.7") is Carries.TLS


@pytest.mark.parametrize(
    "data", [b"\x16", b"\x16\x03\x01\x01", b"G", b"GET ", b"GET /x", b"GET / HTT", b"GET / HTTP/1.1\r"]
)
def test_too_few_bytes_are_waited_for(data: bytes) -> None:
    assert what_it_carries(data, "a.test") is None


def test_http_is_known_by_its_first_line() -> None:
    assert what_it_carries(b"GET / HTTP/1.1\r\nHost:", "a.test") is Carries.HTTP


@pytest.mark.parametrize(
    ("names", "host", "reason"),
    [
        ([], "a.test", "sni_missing: the TLS hello names no host, the tunnel was opened to a.test"),
        ([b"a.test", b"a.test"], "a.test", "sni_ambiguous: the TLS hello names more than one host"),
        ([b"b.test"], "a.test", "sni_mismatch: the TLS hello names b.test, the tunnel was opened to a.test"),
        (
            [b"a.test"],
            "203.0.113.7",
            "sni_mismatch: the TLS hello names a.test, the tunnel was opened to the address 203.0.113.7",
        ),
        ([b"a..test"], "a.test", "sni_ambiguous: 'a..test' is no host name"),
    ],
)
def test_tls_for_another_host_is_told_apart(names: list[bytes], host: str, reason: str) -> None:
    with pytest.raises(WrongNameError) as caught:
        what_it_carries(hello(*names), host)
    assert reason == str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SSH-2.0-x", "neither TLS nor HTTP"),
        (b"GET / HTTP/1.1\n", "neither TLS nor HTTP"),
        (b"GET  /", "neither TLS nor HTTP"),
        (b"GET /" + b"x" * 70_000, "neither TLS nor HTTP"),
        (b"\x16\x03\x01\x00\x00", "a TLS hello that cannot be read: not a TLS handshake record"),
    ],
)
def test_anything_else_is_a_raw_tunnel(data: bytes, reason: str) -> None:
    with pytest.raises(RawTunnelError) as caught:
        what_it_carries(data, "a.test")
    assert reason == str(caught.value)
