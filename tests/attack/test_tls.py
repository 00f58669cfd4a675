"""SNI, Host and authority: rows S1-S9 and B6 of the attack list."""

import json
import ssl
import subprocess

import pytest

from attack_stand import Stand
from proxy_stand import get, read_all

ALERT_UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"


def hello(*names: bytes) -> bytes:
    """Return a handmade ClientHello with any server names."""
    listed = b"".join(b"\0" + len(name).to_bytes(2) + name for name in names)
    sni = len(listed).to_bytes(2) + listed
    extensions = b"\0\0" + len(sni).to_bytes(2) + sni if names else b""
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


@pytest.mark.parametrize("tunnel_host", ["allowed.test", "evil.test"])
@pytest.mark.parametrize("sni", ["evil.test", "allowed.test.evil.test", "b.wild.test"])
def test_an_sni_that_differs_from_the_tunnels_host_ends_the_tunnel(stand: Stand, tunnel_host: str, sni: str) -> None:
    if tunnel_host == sni:
        sni = "allowed.test"
    with stand.proxy.tunnel(tunnel_host) as tunnel:
        tunnel.sendall(hello(sni.encode()))
        assert read_all(tunnel) == ALERT_UNRECOGNIZED_NAME
    line = stand.proxy.line(event="connect", decision="deny", host=tunnel_host)
    assert line["reason"] == f"sni_mismatch: the ClientHello names {sni}, but the tunnel was opened to {tunnel_host}"
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ((), "sni_missing"),
        ((b"allowed.test", b"evil.test"), "sni_ambiguous"),
        ((b"allowed.test", b"allowed.test"), "sni_ambiguous"),
        ((b"127.0.0.1",), "sni_mismatch"),
        ((b"allowed.test\0.evil.test",), "sni_ambiguous"),
        ((b"",), "sni_ambiguous"),
        ((b".allowed.test",), "sni_ambiguous"),
    ],
)
def test_an_ambiguous_or_missing_sni_ends_the_tunnel(stand: Stand, names: tuple[bytes, ...], reason: str) -> None:
    with stand.proxy.tunnel("allowed.test") as tunnel:
        tunnel.sendall(hello(*names))
        assert read_all(tunnel) == ALERT_UNRECOGNIZED_NAME
    assert stand.proxy.line(event="connect", decision="deny")["reason"].startswith(reason)
    stand.assert_nothing_got_out()


def test_a_tunnel_to_an_allowed_address_rejects_a_hello_with_an_sni(stand: Stand) -> None:
    assert stand.proxy.ask("203.0.113.137", get("/", "203.0.113.137")).startswith(b"HTTP/1.1 200")
    stand.forget()
    with stand.proxy.tunnel("203.0.113.137") as tunnel:
        tunnel.sendall(hello(b"allowed.test"))
        assert read_all(tunnel) == ALERT_UNRECOGNIZED_NAME
    stand.assert_nothing_got_out()


def test_checks_a_hello_sent_in_small_pieces(stand: Stand) -> None:
    data = hello(b"evil.test")
    with stand.proxy.tunnel("allowed.test") as tunnel:
        for start in range(0, len(data), 7):
            tunnel.sendall(data[start : start + 7])
        assert read_all(tunnel) == ALERT_UNRECOGNIZED_NAME
    stand.assert_nothing_got_out()


def test_checks_a_hello_split_over_tls_records(stand: Stand) -> None:
    message = hello(b"evil.test")[5:]
    pieces = [message[start : start + 9] for start in range(0, len(message), 9)]
    with stand.proxy.tunnel("allowed.test") as tunnel:
        tunnel.sendall(b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2) + piece for piece in pieces))
        assert read_all(tunnel) == ALERT_UNRECOGNIZED_NAME
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("host", ["evil.test", "allowed.test:8443", "allowed.test.evil.test", "allowed.test@evil.test"])
def test_denies_a_host_header_that_differs_from_the_tunnels_host(stand: Stand, host: str) -> None:
    answer = stand.proxy.ask("allowed.test", get("/api/x", host))
    assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400")
    line = stand.proxy.line(event="request", decision="deny", host="allowed.test", port=443)
    assert line["reason"].startswith(("host_mismatch", "ambiguous"))
    stand.assert_nothing_got_out()


def test_denies_an_allowed_host_header_in_a_tunnel_to_a_denied_host(stand: Stand) -> None:
    answer = stand.proxy.ask("evil.test", get("/api/x", "allowed.test"))
    assert answer.startswith(b"HTTP/1.1 403")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /api/x HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nHost: allowed.test\r\nHost: allowed.test\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\n\r\n",
        b"GET /api/x HTTP/1.0\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nHost: allowed.test\xff\r\n\r\n",
    ],
)
def test_a_request_without_exactly_one_valid_host_header_is_a_400(stand: Stand, head: bytes) -> None:
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(head)
        assert read_all(stream).startswith(b"HTTP/1.1 400")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("host", ["ALLOWED.test", "allowed.test.", "Allowed.Test:443"])
def test_letter_case_dot_and_default_port_do_not_change_the_host(stand: Stand, host: str) -> None:
    assert stand.proxy.ask("allowed.test", get("/api/x", host)).startswith(b"HTTP/1.1 200")
    assert stand.allowed.wait_for(1)[0].field("host") == ["allowed.test"]
    stand.proxy.line(decision="allow", host="allowed.test")


def test_denies_an_http2_stream_to_another_host_than_the_tunnels(stand: Stand) -> None:
    curl = [
        *("curl", "-s", "--http2", "--max-time", "5", "-o", "/dev/null", "-w", "%{http_code} %{http_version}\n"),
        *("-x", f"http://{stand.proxy.ready['listening']}", "--cacert", stand.proxy.ready["ca"]),
    ]
    urls = ["https://allowed.test/api/1", "--next", *curl[1:], "-H", "Host: evil.test", "https://allowed.test/api/2"]
    done = subprocess.run([*curl, *urls], capture_output=True, text=True, check=False)
    assert done.stdout == "200 2\n403 2\n"
    assert [request.line for request in stand.allowed.requests] == ["GET /api/1 HTTP/1.1"]


@pytest.mark.parametrize("host", ["a.b.wild.test", "ports.test"])
def test_the_certificate_that_the_client_sees_names_only_the_requested_host(stand: Stand, host: str) -> None:
    with stand.proxy.tls(host, 8443 if host == "ports.test" else 443) as stream:
        certificate = stream.getpeercert()
    assert certificate is not None
    assert certificate["subjectAltName"] == (("DNS", host),)


def test_rejects_old_tls_versions(stand: Stand) -> None:
    context = ssl.create_default_context(cafile=stand.proxy.ready["ca"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with stand.proxy.tunnel("allowed.test") as tunnel, pytest.raises(ssl.SSLError):
        context.wrap_socket(tunnel, server_hostname="allowed.test")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    ("host", "status", "reason"),
    [
        ("wrong.wild.test", 502, "the server's certificate is for another host"),
        ("untrusted.wild.test", 502, "the server's certificate is from an unknown authority, or"),
        ("selfsigned.wild.test", 502, "the server's certificate is self-signed; `upstream: {ca: FILE}` in the policy"),
        ("expired.wild.test", 502, "the server's certificate has expired; if that is wrong, set the clock"),
        ("early.wild.test", 502, "the server's certificate is not valid yet; if that is wrong, set the clock"),
        ("plain.wild.test", 502, "the server does not speak TLS on this port"),
    ],
)
def test_sends_no_request_to_a_server_without_a_valid_certificate(
    stand: Stand, host: str, status: int, reason: str
) -> None:
    answer = stand.proxy.ask(host, get("/x", host, "Accept: application/json", "Authorization: Bearer secret"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d Bad Gateway\r\nx-agent-sandbox: failed" % status)
    assert json.loads(body)["reason"].startswith(reason)
    assert stand.proxy.line(host=host, status=502)["reason"].startswith(reason)
    assert b"secret" not in bytes(stand.allowed.raw + stand.allowed_plain.raw)
