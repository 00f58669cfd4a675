"""The transparent proxy and the DNS server, for clients that ignore proxy variables: rows S and D."""

import contextlib
import json
import socket
import ssl

import dns.message
import dns.query
import dns.rcode
import pytest

from attack_stand import Stand
from client_hellos import hello
from proxy_stand import get, read_all

QUESTION = b"\0\1\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"
ALERT_UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"


def ask_by_tls(stand: Stand, sni: str, request: bytes, alpn: tuple[str, ...] = ()) -> bytes:
    """Connect like a client whose DNS server resolved the host to the proxy."""
    context = ssl.create_default_context(cafile=stand.proxy.ready["ca"])
    context.set_alpn_protocols([*alpn])
    with (
        stand.proxy.connect(entrance="tls") as connection,
        context.wrap_socket(connection, server_hostname=sni) as stream,
    ):
        stream.sendall(request)
        return read_all(stream)


def ask_by_host(stand: Stand, request: bytes) -> bytes:
    with stand.proxy.connect(entrance="http") as connection:
        connection.sendall(request)
        return read_all(connection)


def reason_in(answer: bytes) -> str:
    reason: str = json.loads(answer.partition(b"\r\n\r\n")[2])["reason"]
    return reason


def test_forwards_an_allowed_https_request_by_its_sni(stand: Stand) -> None:
    assert ask_by_tls(stand, "allowed.test", get("/api/x", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert stand.proxy.line(event="request", decision="allow", host="allowed.test", port=443)["path"] == "/api/x"
    assert b"GET /api/x " in stand.allowed.raw


def test_forwards_an_allowed_http_request_by_its_host_header(stand: Stand) -> None:
    assert ask_by_host(stand, get("/api/x", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert b"GET /api/x " in stand.allowed_plain.raw


@pytest.mark.parametrize("path", ["/other", "/api/secret/x"])
def test_denies_paths_that_the_rules_do_not_allow(stand: Stand, path: str) -> None:
    assert ask_by_tls(stand, "allowed.test", get(path, "allowed.test")).startswith(b"HTTP/1.1 403")
    assert ask_by_host(stand, get(path, "allowed.test")).startswith(b"HTTP/1.1 403")
    stand.assert_nothing_got_out()


@pytest.mark.unasked
def test_explains_denials_over_https_and_http(stand: Stand) -> None:
    assert reason_in(ask_by_tls(stand, "evil.test", get("/", "evil.test"))) == "no rule allows host evil.test"
    assert reason_in(ask_by_host(stand, get("/", "evil.test"))) == "no rule allows host evil.test"
    assert stand.proxy.line(event="request", decision="deny", host="evil.test", port=443)
    assert stand.proxy.line(event="request", decision="deny", host="evil.test", port=80)
    stand.assert_nothing_got_out()


def test_denies_a_host_that_is_allowed_only_on_another_port(stand: Stand) -> None:
    told = reason_in(ask_by_tls(stand, "ports.test", get("/", "ports.test")))
    assert told.startswith("host ports.test is allowed, port 443 is not")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(("sni", "host"), [("allowed.test", "evil.test"), ("evil.test", "allowed.test")])
def test_denies_a_host_header_that_differs_from_the_sni(stand: Stand, sni: str, host: str) -> None:
    assert reason_in(ask_by_tls(stand, sni, get("/api/x", host))).startswith("host_mismatch: ")
    stand.assert_nothing_got_out()


def test_a_second_request_to_another_host_is_denied(stand: Stand) -> None:
    first = b"GET /api/x HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
    answer = ask_by_host(stand, first + get("/api/x", "evil.test"))
    assert (answer.count(b"HTTP/1.1 200"), answer.count(b'"reason": "host_mismatch')) == (1, 1)
    assert bytes(stand.evil.raw) == b""


@pytest.mark.parametrize(
    ("names", "reason"),
    [((), "sni_missing"), ((b"allowed.test", b"evil.test"), "sni_ambiguous"), ((b"127.0.0.1",), "sni_ambiguous")],
)
def test_rejects_a_tls_hello_without_exactly_one_host_name(stand: Stand, names: tuple[bytes, ...], reason: str) -> None:
    with stand.proxy.connect(entrance="tls") as connection:
        connection.sendall(hello(*names))
        assert read_all(connection) == ALERT_UNRECOGNIZED_NAME
    assert stand.proxy.line(event="tls", decision="deny", port=443)["reason"].startswith(reason)
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n\0\1bin", b"GET /api/x HTTP/1.1\r\nHost: allowed.test\r\n\r\n"])
def test_transparent_tls_port_closes_connections_without_tls(stand: Stand, data: bytes) -> None:
    with stand.proxy.connect(entrance="tls") as connection:
        connection.sendall(data)
        assert read_all(connection) == b""
    assert stand.proxy.line(event="raw_tunnel", decision="deny", port=443)["reason"] == "not TLS"
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "data",
    [
        hello(b"allowed.test"),
        b"SSH-2.0-x\r\n",
        b"GET /api/x HTTP/1.0\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
        b"GET http://evil.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n",
        b"CONNECT evil.test:443 HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n",
    ],
)
def test_transparent_http_port_rejects_malformed_and_non_http_requests(stand: Stand, data: bytes) -> None:
    assert ask_by_host(stand, data).startswith(b"HTTP/1.1 400")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("ask", [dns.query.udp, dns.query.tcp])
@pytest.mark.parametrize(
    ("name", "kind", "code", "answers"),
    [
        ("allowed.test", "A", dns.rcode.NOERROR, 1),
        ("x.wild.test", "A", dns.rcode.NOERROR, 1),
        ("allowed.test", "AAAA", dns.rcode.NOERROR, 0),
        ("allowed.test", "HTTPS", dns.rcode.NOERROR, 0),
        pytest.param("evil.test", "A", dns.rcode.NXDOMAIN, 0, marks=pytest.mark.unasked),
        pytest.param("c2VjcmV0IGRhdGE.evil.test", "A", dns.rcode.NXDOMAIN, 0, marks=pytest.mark.unasked),
        ("metadata.google.internal", "A", dns.rcode.NXDOMAIN, 0),
        ("allowed.test", "TXT", dns.rcode.REFUSED, 0),
        ("evil.test", "ANY", dns.rcode.REFUSED, 0),
    ],
)
def test_dns_server_answers_by_the_policy_and_records_each_query(  # noqa: PLR0917 - a table
    stand: Stand, ask: object, name: str, kind: str, code: int, answers: int
) -> None:
    address, port = stand.proxy.entrance("dns")
    answer = ask(dns.message.make_query(name, kind), address, port=port, timeout=30)  # type: ignore[operator]
    assert (answer.rcode(), len(answer.answer)) == (code, answers)
    decision = "allow" if code == dns.rcode.NOERROR else "deny"
    assert stand.proxy.line(event="dns", host=name.lower(), method=kind)["decision"] == decision
    stand.assert_nothing_got_out()


def test_dns_server_survives_malformed_messages(stand: Stand) -> None:
    place = stand.proxy.entrance("dns")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for data in (b"", b"\xff" * 12, b"\0" * 600, bytes(range(256)) * 5):
            client.sendto(data, place)
    with stand.proxy.connect(entrance="dns") as connection:
        connection.sendall(b"\xff\xff" + b"x" * 100)
    answer = dns.query.udp(dns.message.make_query("allowed.test", "A"), place[0], port=place[1], timeout=30)
    assert answer.rcode() == dns.rcode.NOERROR


def test_costly_dns_queries_do_not_delay_other_clients(stand: Stand) -> None:
    place = stand.proxy.entrance("dns")
    name = b"\1a" * 126 + b"\0"
    pointing = b"\xc0\x0c\0\2\0\1\0\0\0\0\0\2\xc0\x0c"
    heavy = b"\0\1\1\0\0\1\0\0\0\0\x0e\0" + name + b"\0\1\0\1" + pointing * 0xE00
    many = (len(QUESTION).to_bytes(2) + QUESTION) * 5_000
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for _ in range(5):
            client.sendto(heavy, place)
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(stand.proxy.connect(entrance="dns"))
            with contextlib.suppress(OSError):
                connection.sendall(many)
        with stand.proxy.little_work():
            assert ask_by_host(stand, get("/api/x", "allowed.test")).startswith(b"HTTP/1.1 200")
        assert stand.proxy.command("health", f"--proxy={stand.proxy.ready['listening']}").returncode == 0
