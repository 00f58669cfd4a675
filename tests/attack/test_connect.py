"""CONNECT and proxy abuse: rows C1-C11, B1, B2 and B5 of the attack list."""

import contextlib
import json
import socket
import time

import pytest

from attack_stand import RESOLVERS, Stand
from client_hellos import hello
from proxy_stand import get, read_all, read_head


def connect(authority: str, *fields: str) -> bytes:
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@pytest.mark.parametrize("port", [22, 25, 53, 8443])
def test_denies_connect_to_a_port_that_no_rule_names(stand: Stand, port: int) -> None:
    answer = stand.proxy.say(connect(f"allowed.test:{port}") + b"SSH-2.0-x\r\n\0\1bin")
    line = stand.proxy.line(event="connect", decision="deny", host="allowed.test", port=port)
    assert f"port {port} is not" in line["reason"]
    # The reason is in the status phrase, because most clients show nothing else of the response.
    status = f"HTTP/1.1 403 Blocked by agent-sandbox: {line['reason']}\r\n"
    assert answer.startswith(status.encode() + b"x-agent-sandbox: blocked\r\n")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\0\1bin",
        b"SSH-2.0-Open SSH\r\n",
        b"\0\1\2\3",
        b"EHLO me\r\n",
        b"\x16\x03\x01\x00\x00",
        b"\r\n\r\n",
        b"\0\1\2\3" + get("/api/x", "allowed.test"),
    ],
)
def test_closes_a_tunnel_that_carries_neither_tls_nor_http(stand: Stand, data: bytes) -> None:
    with stand.proxy.tunnel("allowed.test") as tunnel:
        tunnel.sendall(data)
        assert read_all(tunnel) == b""
    stand.proxy.line(event="raw_tunnel", decision="deny", host="allowed.test")
    stand.assert_nothing_got_out()


def test_records_a_tunnel_that_the_client_closes_before_its_first_message(stand: Stand) -> None:
    with stand.proxy.tunnel("allowed.test") as tunnel:
        tunnel.shutdown(socket.SHUT_WR)
        assert read_all(tunnel) == b""
    stand.proxy.line(event="raw_tunnel", reason="the client closed the connection before its first message")
    stand.assert_nothing_got_out()


def test_plain_http_in_a_tunnel_is_decided_like_any_request(stand: Stand) -> None:
    with stand.proxy.tunnel("allowed.test", 80) as tunnel:
        tunnel.sendall(get("/api/x", "allowed.test"))
        assert read_all(tunnel).startswith(b"HTTP/1.1 200")
    assert [request.line for request in stand.allowed_plain.requests] == ["GET /api/x HTTP/1.1"]
    stand.forget()
    with stand.proxy.tunnel("allowed.test", 80) as tunnel:
        tunnel.sendall(get("/admin", "allowed.test"))
        assert read_all(tunnel).startswith(b"HTTP/1.1 403")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(("host", "path"), [("allowed.test", "/api/x"), ("allowed.test:443", "/admin")])
def test_denies_plain_http_in_a_tunnel_to_port_443(stand: Stand, host: str, path: str) -> None:
    with stand.proxy.tunnel("allowed.test", 443) as tunnel:
        tunnel.sendall(get(path, host))
        assert read_all(tunnel).startswith(b"HTTP/1.1 403")
    assert stand.proxy.line(event="request", decision="deny", path=path)["port"] == 443
    stand.assert_nothing_got_out()


def test_denies_an_ip_address_followed_by_an_allowed_sni(stand: Stand) -> None:
    answer = stand.proxy.say(connect("198.51.100.34:443") + hello(b"allowed.test"))
    assert answer.startswith(b"HTTP/1.1 403")
    stand.proxy.line(event="connect", decision="deny", host="198.51.100.34")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("place", RESOLVERS)
def test_denies_dns_resolvers_over_https_and_tls(stand: Stand, place: str) -> None:
    host = place.partition(":")[0]
    with stand.proxy.connect() as connection:
        connection.sendall(connect(place))
        if read_head(connection).startswith(b"HTTP/1.1 200"):  # the denial comes inside TLS
            connection.sendall(hello(host.encode()))
            connection.shutdown(socket.SHUT_WR)
            read_all(connection)
    stand.proxy.line(decision="deny", host=host)
    stand.assert_nothing_got_out()


SOCKS = {
    "a greeting": b"\5\1\0",
    "a password": b"\5\2\0\2",
    "a name with a NUL": b"\5\1\0\5\1\0\3\x16allowed.test\0.evil.test\1\xbb",
    "BIND": b"\5\1\0\5\2\0\1\xc6\x33\x64\x22\0\x50",
    "UDP ASSOCIATE": b"\5\1\0\5\3\0\1\0\0\0\0\0\0",
    "version 4": b"\4\1\0\x50\xc6\x33\x64\x22\0",
    "version 4, by name": b"\4\1\1\xbb\0\0\0\1\0allowed.test\0",
}


@pytest.mark.parametrize("entrance", ["listening", "tls", "http"])
@pytest.mark.parametrize("said", SOCKS)
def test_rejects_socks_on_each_listener(stand: Stand, said: str, entrance: str) -> None:
    with stand.proxy.connect(entrance=entrance) as connection:
        connection.sendall(SOCKS[said])
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection)[:12] in (b"HTTP/1.1 400", b"")
    assert stand.proxy.line(decision="deny")["event"] in ("malformed", "raw_tunnel")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "request_",
    [
        connect("evil.test:443"),
        b"GET https://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET ftp://allowed.test/api/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"GET file:///etc/passwd HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"GET //evil.test/api/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    ],
)
def test_rejects_request_targets_in_a_tunnel_that_are_not_paths(stand: Stand, request_: bytes) -> None:
    answer = stand.proxy.ask("allowed.test", request_)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nx-agent-sandbox: blocked\r\n")
    assert stand.proxy.line(decision="deny", host="allowed.test")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "target",
    [
        *("https://evil.test/", "ftp://allowed.test/", "file:///x", "/", "*", "allowed.test:443"),
        *("http://user:hunter2@allowed.test/api/x", "http://hunter2@evil.test/", "http://allowed.test:80@evil.test/"),
    ],
)
def test_explicit_proxy_rejects_targets_that_are_not_plain_http_urls(stand: Stand, target: str) -> None:
    answer = stand.proxy.say(f"GET {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert "hunter2" not in json.dumps(stand.proxy.line(event="malformed"))
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "authority",
    [
        "localhost:8081",
        "127.0.0.1:8080",
        "[::1]:443",
        "0.0.0.0:80",
        pytest.param("mitm.it:80", marks=pytest.mark.unasked),
    ],
)
def test_denies_connect_to_loopback_and_mitm_it(stand: Stand, authority: str) -> None:
    assert stand.proxy.say(connect(authority)).startswith(b"HTTP/1.1 403")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "bytes_",
    [
        b"CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"CONNECT allowed.test:0 HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"CONNECT allowed.test:99999 HTTP/1.1\r\n\r\n",
        b"CONNECT user@allowed.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/2.0\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test\r\nHost: allowed.test\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\nHost: allowed.test\n\n",
        b"CONNECT  allowed.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443\r\n\r\n",
        b"CONNECT http://allowed.test:443/ HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.t\xc3\xa9st:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\n folded: x\r\n\r\n",
        b"CONNECT allowed.test%00.evil.test:443 HTTP/1.1\r\n\r\n",
        b"\r\nCONNECT allowed.test:443 HTTP/1.1\r\n\r\n",
        b" CONNECT allowed.test:443 HTTP/1.1\r\n\r\n",
        b"connect allowed.test:443 HTTP/1.1\r\n\r\n",
    ],
)
def test_a_malformed_connect_is_a_400_at_once(stand: Stand, bytes_: bytes) -> None:
    answer = stand.proxy.say(bytes_)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-agent-sandbox: blocked\r\n" in answer
    stand.proxy.line(event="malformed", decision="deny")
    stand.assert_nothing_got_out()


def test_denies_an_absolute_url_whose_host_differs_from_the_host_header(stand: Stand) -> None:
    answer = stand.proxy.say(get("http://allowed.test/api/", "evil.test"))
    assert answer.startswith(b"HTTP/1.1 403")
    assert stand.proxy.line(event="request", decision="deny")["reason"].startswith("host_mismatch")
    stand.assert_nothing_got_out()


@pytest.mark.unasked
def test_requests_to_several_hosts_over_one_proxy_connection_are_each_decided(stand: Stand) -> None:
    with stand.proxy.connect() as connection:
        requests = [("allowed.test", "/api/1"), ("evil.test", "/api/"), ("a.wild.test", "/2"), ("allowed.test", "/no")]
        for host, path in requests:
            connection.sendall(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            stand.proxy.line(host=host, path=path)
        connection.shutdown(socket.SHUT_WR)
    assert [line["decision"] for line in stand.proxy.lines] == ["allow", "deny", "allow", "deny"]
    received = [(request.line, request.field("host")) for request in stand.allowed_plain.requests]
    assert received == [("GET /api/1 HTTP/1.1", ["allowed.test"]), ("GET /2 HTTP/1.1", ["a.wild.test"])]
    assert stand.evil.connections == 0


@pytest.mark.unasked
def test_a_denied_host_is_explained_inside_the_tunnel_and_not_connected_to(stand: Stand) -> None:
    answer = stand.proxy.ask("evil.test", get("/x?token=1", "evil.test", "Accept: application/json"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\nx-agent-sandbox: blocked")
    assert json.loads(body) == {
        "blocked": True,
        "host": "evil.test",
        "method": "GET",
        "path": "/x",
        "reason": "no rule allows host evil.test",
        "rule": None,
        "near_miss": "",
        "hint": "run `agent-sandbox policy allow 'GET https://evil.test/x'` on the host machine",
        "help": "http://agent-sandbox.internal/",
        "message": "Blocked by agent-sandbox: no rule allows host evil.test; to allow it: "
        "run `agent-sandbox policy allow 'GET https://evil.test/x'` on the host machine",
    }
    stand.proxy.line(event="request", decision="deny", host="evil.test", path="/x", status=403)
    stand.assert_nothing_got_out()


def test_a_denial_suggests_the_service_that_would_allow_the_request(stand: Stand) -> None:
    deadline, answer = time.monotonic() + 30, b""
    # The proxy reads the services meanwhile.
    while b"policy allow github" not in answer and time.monotonic() < deadline:
        answer = stand.proxy.ask("github.com", get("/owner/name/info/refs?service=git-upload-pack", "github.com"))
    assert b"run `agent-sandbox policy allow github`, or `agent-sandbox policy allow 'GET " in answer
    stand.assert_nothing_got_out()


def test_thousands_of_idle_tunnels_do_not_stop_other_requests(stand: Stand) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1_500):
            connection = stack.enter_context(stand.proxy.connect())
            connection.sendall(connect("allowed.test:443"))
        assert stand.proxy.ask("allowed.test", get("/api/still", "allowed.test")).startswith(b"HTTP/1.1 200")
    status = stand.proxy.ask_control("status")
    assert status["connections"] <= 1_024
