"""Behind an upstream proxy: all allowed requests go through it, and all checks still apply."""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from capture_server import Capture
from certificates import make_authority
from changed_limits import limits_with
from fake_upstream_proxy import FINDS_NOBODY, OPENED, Company
from http2client import Http2Client
from intercepting_proxy import Intercepting
from proxy_stand import ProxyProcess, get, read_head
from websocket_client import echo, frame, handshake

NAMES = ["allowed.test", "unopened.test"]
IMPATIENT = limits_with(connect_seconds=1.0)
POLICY = """\
version: 1
allow_all: true
domains: ["*", {{host: unopened.test, inspect: false}}]
deny: [denied.test]
host_services: {{ollama: {{to: host:11434}}}}
settings:
  upstream: {{proxy: "http://{proxy}", ca: ca.crt, no_proxy: [near.test]}}
"""
OK_ALONE = "version: 1\ndomains: [{host: allowed.test, rules: [{path: {prefix: /ok}}, {path: {exact: /ws}}]}]\n"
FIRST, SECOND, SECURE = "first.corp.test:3128", "second.corp.test:3128", "secure.corp.test:3129"


@dataclass
class Stand:
    """The proxy, three upstream proxies, and the servers. The trusted CA signed the certificate of `server`."""

    proxy: ProxyProcess
    first: Company
    second: Company
    secure: Company
    server: Capture
    plain: Capture
    evil: Capture

    def reload(self, text: str) -> None:
        self.proxy.reload(text)

    def companies(self) -> list[list[str]]:
        return [company.asked for company in (self.first, self.second, self.secure)]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Start everything once."""
    folder, other = tmp_path_factory.mktemp("company"), tmp_path_factory.mktemp("other")
    make_authority(folder, [*NAMES, "secure.corp.test"])
    make_authority(other, NAMES)
    user = folder / "user"
    user.mkdir()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            Capture(certificate=folder / "leaf.pem", protocols=("http/1.1",), answers={"/ws": echo})
        )
        plain = stack.enter_context(Capture())
        evil = stack.enter_context(Capture(certificate=other / "leaf.pem"))
        leads = {f"{name}:443": server.port for name in NAMES} | {"allowed.test:80": plain.port}
        first, second = (stack.enter_context(Company(leads=leads)) for _ in range(2))
        secure = stack.enter_context(Company(leads=leads, certificate=folder / "leaf.pem"))
        resolve = {("ollama", 11434): plain.port, ("near.test", 80): plain.port}
        for place, company in ((FIRST, first), (SECOND, second), (SECURE, secure)):
            host, _, port = place.partition(":")
            resolve[host, int(port)] = company.port
        proxy = ProxyProcess(
            folder,
            POLICY.format(proxy=FIRST),
            resolve=resolve,
            sabotage=FINDS_NOBODY + IMPATIENT,
            more=(f"--layer=user={user}/policy.yaml",),
        )
        yield Stand(stack.enter_context(proxy), first, second, secure, server, plain, evil)


@pytest.fixture
def stand(started: Stand) -> Stand:
    """The same, reset to its first policy."""
    user = started.proxy.folder / "user"
    for file in user.iterdir():
        file.unlink()
    started.reload(POLICY.format(proxy=FIRST))
    for part in (started.proxy, started.first, started.second, started.secure, started.server, started.plain):
        part.forget()
    started.evil.forget()
    return started


def assert_goes_unopened(stand: Stand) -> None:
    """Check that the client gets the server's own certificate and its response."""
    context = ssl.create_default_context(cafile=stand.proxy.folder / "ca.crt")
    with (
        stand.proxy.tunnel("unopened.test") as connection,
        context.wrap_socket(connection, server_hostname="unopened.test") as stream,
    ):
        stream.sendall(get("/unopened", "unopened.test"))
        assert b"200" in read_head(stream)


def test_each_kind_of_connection_goes_through_the_upstream_proxy_by_name(stand: Stand) -> None:
    assert b"200" in stand.proxy.ask("allowed.test", get("/x", "allowed.test")).partition(b"\r\n")[0]
    with stand.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        fields = ((":method", "GET"), (":scheme", "https"), (":authority", "allowed.test"), (":path", "/h2"))
        assert client.status(client.send(*fields)) == "200"
    with stand.proxy.tls("allowed.test") as stream:
        stream.sendall(handshake())
        assert b"101" in read_head(stream)
        stream.sendall(frame(b"hello", masked=True))
        assert stream.recv(100) == frame(b"hello", masked=False)
    assert b"200" in stand.proxy.say(get("http://allowed.test/plain", "allowed.test")).partition(b"\r\n")[0]
    assert_goes_unopened(stand)
    tls = "CONNECT allowed.test:443 HTTP/1.1"
    plain, unopened = "CONNECT allowed.test:80 HTTP/1.1", tls.replace("allowed", "unopened")
    assert [*dict.fromkeys(stand.first.asked)] == [tls, plain, unopened]  # idle connections are reused
    assert stand.first.heads[0] == f"{tls}\r\nHost: allowed.test:443\r\n\r\n".encode()
    assert [request.line for request in stand.plain.requests] == ["GET /plain HTTP/1.1"]
    assert b"/h2" not in stand.first.carried


def test_denied_requests_do_not_reach_the_upstream_proxy(stand: Stand) -> None:
    assert b" 403 " in stand.proxy.say(get("http://denied.test/x", "denied.test")).partition(b"\r\n")[0]
    assert stand.companies() == [[], [], []]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("inside.test", "inside.test resolves to 10.1.2.3, a private address"),
        ("cloud.test", "cloud.test resolves to 169.254.169.254, a link-local address"),
        ("metadata.google.internal", "metadata.google.internal can only be a private host"),
        ("printer.local", "printer.local can only be a private host"),
    ],
)
def test_requests_to_private_addresses_do_not_reach_the_upstream_proxy(stand: Stand, host: str, why: str) -> None:
    assert b" 403 " in stand.proxy.say(get(f"http://{host}/x", host)).partition(b"\r\n")[0]
    assert stand.proxy.line(event="request", host=host)["reason"] == why
    assert stand.companies() == [[], [], []]


def test_connects_directly_to_host_services_and_no_proxy_hosts(stand: Stand) -> None:
    assert b"200" in stand.proxy.say(get("http://ollama:11434/x", "ollama:11434"))
    assert b"200" in stand.proxy.say(get("http://near.test/x", "near.test"))
    assert stand.companies() == [[], [], []]


def drip(stream: socket.socket) -> None:
    """Send a response head one byte at a time."""
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100:
        stream.sendall(bytes([byte]))
        time.sleep(0.05)


def endless(stream: socket.socket) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(1000):
        stream.sendall(b"X: " + b"x" * 1000 + b"\r\n")


def says(data: bytes) -> Callable[[socket.socket], None]:
    def answer(stream: socket.socket) -> None:
        stream.sendall(data)
        stream.settimeout(2)
        while stream.recv(65536):
            pass

    return answer


LIES = {
    "garbage": (says(OPENED + bytes(range(256)) * 4), "TLS"),
    "two answers": (says(OPENED + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "TLS"),
    "a page": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlogin"), "TLS"),
    "a redirect": (says(b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\n\r\n"), "refuses a tunnel to"),
    "a question": (says(b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\n\r\n"), "requires credentials"),
    "a refusal": (says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"), "denies allowed.test:443"),
    "nothing": (lambda _: None, "closed the connection without a response"),
    "no HTTP": (says(b"SSH-2.0-x\r\n\r\n"), "sent a malformed response: it is not HTTP/1"),
    "bare line feeds": (
        says(b"HTTP/1.1 200 OK\nX: y\n\r\n\r\n"),
        "sent a malformed response: a bare CR or LF in the response head",
    ),
    "a folded line": (
        says(b"HTTP/1.1 200 OK\r\nVia: x\r\n y\r\n\r\n"),
        "sent a malformed response: a folded header line",
    ),
    "an endless head": (endless, "sent an overlong response head"),
    "a slow head": (drip, "did not answer within 1 s"),
    "silence": (lambda _: time.sleep(3), "did not answer within 1 s"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_bad_answer_of_the_upstream_proxy_is_a_502_with_the_reason(stand: Stand, lie: str) -> None:
    stand.first.lie, why = LIES[lie]
    answer = stand.proxy.ask("allowed.test", get("/secret", "allowed.test"))
    assert answer.startswith(b"HTTP/1.1 502"), answer
    assert why in stand.proxy.line(event="request", host="allowed.test")["reason"]
    assert stand.first.asked == ["CONNECT allowed.test:443 HTTP/1.1"]
    assert b"login" not in answer
    assert stand.server.connections == 0


@pytest.mark.parametrize(
    ("host", "why"), [("allowed.test", "from an unknown authority"), ("other.test", "for another host")]
)
def test_a_tunnel_to_the_wrong_server_fails_certificate_verification(stand: Stand, host: str, why: str) -> None:
    elsewhere = stand.evil.port if host == "allowed.test" else stand.server.port
    stand.first.leads = {**stand.first.leads, f"{host}:443": elsewhere}
    try:
        assert stand.proxy.ask(host, get("/secret", host)).startswith(b"HTTP/1.1 502")
    finally:
        stand.first.leads = stand.second.leads
    assert why in stand.proxy.line(event="request", host=host)["reason"]
    assert (stand.evil.requests, stand.server.requests) == ([], [])


def test_an_upstream_proxy_that_does_not_resolve_is_a_502(stand: Stand) -> None:
    stand.reload(POLICY.format(proxy="gone.corp.test:3128"))
    assert stand.proxy.ask("allowed.test", get("/x", "allowed.test")).startswith(b"HTTP/1.1 502")
    told = "the upstream proxy does not resolve: Name or service not known"
    assert stand.proxy.line(event="request", host="allowed.test")["reason"] == told


def test_a_reload_changes_the_upstream_proxy_and_the_trusted_ca(stand: Stand) -> None:
    stand.reload(POLICY.format(proxy=SECOND))
    assert b"200" in stand.proxy.ask("allowed.test", get("/x", "allowed.test"))
    assert [len(asked) for asked in stand.companies()] == [0, 1, 0]
    stand.reload(POLICY.format(proxy=SECOND).replace(", ca: ca.crt", ""))
    assert stand.proxy.ask("allowed.test", get("/x", "allowed.test")).startswith(b"HTTP/1.1 502")
    stand.proxy.policy_file.write_text(POLICY.format(proxy="me:pw@first.corp.test:3128"))
    refused = stand.proxy.command("reload")
    assert (refused.returncode, "pw@" in refused.stdout, "credentials" in refused.stdout) == (1, False, True)


def test_verifies_the_tls_certificate_of_the_upstream_proxy(stand: Stand) -> None:
    secure = POLICY.replace("http://", "https://")
    stand.reload(secure.format(proxy=SECURE))
    assert b"200" in stand.proxy.ask("allowed.test", get("/x", "allowed.test"))
    assert_goes_unopened(stand)
    assert [len(asked) for asked in stand.companies()] == [0, 0, 2]
    for place in (FIRST, SECURE.replace("secure", "first").replace("3129", "3128")):
        stand.reload(secure.format(proxy=place))
        assert stand.proxy.ask("allowed.test", get("/x", "allowed.test")).startswith(b"HTTP/1.1 502")
    assert stand.first.asked == []


def test_sends_upstream_credentials_only_to_the_proxy_that_the_users_policy_names(stand: Stand) -> None:
    user = stand.proxy.folder / "user"
    (user / "upstream-auth").write_text("me:hunter2\n")
    (user / "ca.crt").write_bytes((stand.proxy.folder / "ca.crt").read_bytes())
    (user / "policy.yaml").write_text(f"settings: {{upstream: {{proxy: 'http://{SECOND}', ca: ca.crt}}}}")
    stand.reload("version: 1\ndomains: [allowed.test]\n")
    assert b"200" in stand.proxy.ask("allowed.test", get("/x", "allowed.test"))
    assert b"\r\nProxy-Authorization: Basic bWU6aHVudGVyMg==\r\n" in stand.second.heads[0]
    stand.reload(POLICY.format(proxy=FIRST))
    assert b"200" in stand.proxy.ask("allowed.test", get("/x", "allowed.test"))
    assert b"Authorization" not in stand.first.heads[0]
    said = f"{stand.proxy.lines}{stand.proxy.errors}{stand.proxy.command('status').stdout}"
    assert "hunter2" not in said
    assert "bWU6" not in said


def test_does_not_forward_proxy_authorization_of_the_client(stand: Stand) -> None:
    mine = "Proxy-Authorization: Basic bWluZTptaW5l"
    assert b"200" in stand.proxy.say(get("http://allowed.test/plain", "allowed.test", mine))
    assert b"200" in stand.proxy.ask("allowed.test", get("/x", "allowed.test", mine))
    heads = [*stand.first.heads, *(request.head for request in (*stand.plain.requests, *stand.server.requests))]
    assert [head for head in heads if b"bWluZ" in head] == []


def test_an_upstream_proxy_that_inspects_tls_sees_only_allowed_requests(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    user = tmp_path / "user"
    user.mkdir()
    trusted = make_authority(tmp_path, NAMES)
    with Capture(certificate=tmp_path / "leaf.pem", answers={"/ws": echo}) as server, Capture() as plain:
        leads = {"allowed.test:443": server.port, "allowed.test:80": plain.port}
        company = Intercepting(tmp_path / "theirs", leads, trusts=trusted, credentials="me:hunter2")
        with company:
            (user / "upstream-auth").write_text("me:hunter2\n")
            (user / "ca.pem").write_bytes(company.authority.read_bytes())
            (user / "policy.yaml").write_text(f"settings: {{upstream: {{proxy: 'http://{FIRST}', ca: ca.pem}}}}")
            resolve = {("first.corp.test", 3128): company.port}
            layer = (f"--layer=user={user}/policy.yaml",)
            with ProxyProcess(tmp_path, OK_ALONE, resolve=resolve, sabotage=FINDS_NOBODY, more=layer) as proxy:
                assert b"200" in proxy.ask("allowed.test", get("/ok/1", "allowed.test")).partition(b"\r\n")[0]
                assert b"403" in proxy.ask("allowed.test", get("/no", "allowed.test")).partition(b"\r\n")[0]
                with proxy.tls("allowed.test", alpn=("h2",)) as stream:
                    client = Http2Client(stream)
                    fields = ((":method", "GET"), (":scheme", "https"), (":authority", "allowed.test"))
                    assert client.status(client.send(*fields, (":path", "/ok/2"))) == "200"
                    assert client.status(client.send(*fields, (":path", "/no"))) == "403"
                with proxy.tls("allowed.test") as stream:
                    stream.sendall(handshake())
                    assert b"101" in read_head(stream)
                    stream.sendall(frame(b"hello", masked=True))
                    assert stream.recv(100) == frame(b"hello", masked=False)
                assert b"200" in proxy.say(get("http://allowed.test/ok/3", "allowed.test")).partition(b"\r\n")[0]
                assert b"403" in proxy.say(get("http://allowed.test/no", "allowed.test")).partition(b"\r\n")[0]
    assert company.seen == [["GET", path] for path in ("/ok/1", "/ok/2", "/ws", "/ok/3")]
