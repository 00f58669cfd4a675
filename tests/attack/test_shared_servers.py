"""Server connections that clients share: data left over by one exchange reaches no other.

Tests with the fixture `pair` run with HTTP/1.1 clients, with HTTP/2 clients, and with both in turn.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from agent_sandbox.proxy.secrets.store import put_secret
from capture_server import ok
from http2client import Http2Client
from http2client import fields as request_fields
from proxy_pair import Pair, start_pair
from proxy_stand import read_answer, read_head

type Play = Callable[[socket.socket, bytes], None]

BEARER = "{transform: {request: {headers: {Authorization: {secret: %s, transform: {type: bearer}}}}}"
POLICY = f"""\
version: 1
settings: {{http1: lane}}
domains:
  - {{host: allowed.test, {BEARER[1:] % "one"}, rules: [{{path: {{prefix: /one/}}}}]}}
  - {{host: allowed.test, {BEARER[1:] % "two"}, rules: [{{path: {{prefix: /two/}}}}]}}
  - {{host: allowed.test, rules: [{{path: {{prefix: /open/}}}}]}}
  - b.wild.test
"""
FORGED = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
NTLM = ("Authorization: NTLM TlRMTVNTUAAB",)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy with two secrets for one host."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "state" / "secrets").mkdir(parents=True)
    with start_pair(folder, POLICY, protocols=("http/1.1",)) as pair:
        yield pair


VERSIONS: list[str] = []


@pytest.fixture(params=[("1.1",), ("2",), ("1.1", "2"), ("2", "1.1")], ids="-".join)
def pair(started: Pair, request: pytest.FixtureRequest) -> Pair:
    """The same, without idle connections. Clients speak these versions of HTTP in turn."""
    VERSIONS[:] = request.param
    for name in ("one", "two"):
        set_secret(started, name, f"first-value-of-{name}")
    reload(started)
    started.server.answers.clear()
    started.forget()
    return started


def reload(pair: Pair, policy: str = POLICY) -> None:
    pair.proxy.reload(policy)


def set_secret(pair: Pair, name: str, value: str) -> None:
    put_secret(pair.proxy.folder / "state" / "secrets", name, ["allowed.test"], value.encode())


def ask(pair: Pair, path: str, *fields: str, host: str = "allowed.test", method: str = "GET") -> tuple[int, bytes]:
    """Send a request as a new client that lets the server connection stay open."""
    VERSIONS.append(version := VERSIONS.pop(0))
    if version == "2":
        return ask_over_http2(pair, path, *fields, host=host, method=method)
    with pair.proxy.tls(host) as stream:
        lines = (f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, "", "")
        stream.sendall("\r\n".join(lines).encode())
        return (int(read_head(stream).split()[1]), b"") if method == "HEAD" else read_answer(stream)


def ask_over_http2(pair: Pair, path: str, *lines: str, host: str, method: str) -> tuple[int, bytes]:
    with pair.proxy.tls(host, alpn=("h2",)) as stream:
        client = Http2Client(stream)
        named = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
        number = client.send(*request_fields(path, host, method), *named, body=None if method != "POST" else b"")
        status, body = client.answer(number)
        return int(status), body


def came_from(pair: Pair) -> list[int]:
    """Return the client port of each request."""
    return [request.client for request in pair.server.requests]


def test_clients_share_a_server_connection_in_turn(pair: Pair) -> None:
    assert [ask(pair, "/open/1")[0] for _ in range(4)] == [200] * 4
    assert pair.server.connections == 1


def test_hosts_with_the_same_address_do_not_share_a_connection(pair: Pair) -> None:
    ask(pair, "/open/1")
    ask(pair, "/open/1", host="b.wild.test")
    assert len(set(came_from(pair))) == 2


def at_once(stream: socket.socket, first: bytes) -> None:
    stream.sendall(first + FORGED)


def in_pieces(stream: socket.socket, first: bytes) -> None:
    stream.sendall(first + FORGED[:9])
    time.sleep(0.05)
    stream.sendall(FORGED[9:])


def later(stream: socket.socket, first: bytes) -> None:
    stream.sendall(first)
    time.sleep(0.05)
    stream.sendall(FORGED)


EMPTY = b"HTTP/1.1 204 No Content\r\nContent-Length: 44\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "first", "play"),
    [
        ("GET", ok(b"first"), at_once),
        ("GET", ok(b"first"), in_pieces),
        ("GET", ok(b"first"), later),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", at_once),
        ("GET", b"HTTP/1.1 304 Not Modified\r\n\r\n", later),
        ("GET", EMPTY, at_once),
        ("GET", EMPTY, in_pieces),
        ("HEAD", ok(b""), later),
        ("POST", b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", later),
    ],
)
def test_data_after_a_response_does_not_reach_another_client(pair: Pair, method: str, first: bytes, play: Play) -> None:
    done = threading.Event()

    def answer(stream: socket.socket, _: bytes) -> None:
        try:
            play(stream, first)
        finally:
            done.set()
        stream.recv(1)  # until the proxy closes

    pair.server.answers |= {"/open/odd": answer, "/open/good": ok(b"good")}
    ask(pair, "/open/odd", *(["Content-Length: 0"] if method == "POST" else []), method=method)
    assert done.wait(30)
    time.sleep(0.02)
    assert ask(pair, "/open/good") == (200, b"good")
    odd, good = came_from(pair)
    assert odd != good


def test_an_http2_post_without_content_length_uses_no_shared_connection(started: Pair) -> None:
    reload(started)
    started.forget()
    with started.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        for fields in ([], [("content-length", "0")], []):
            number = client.send(*request_fields("/open/1", "allowed.test", "POST"), *fields)
            assert client.answer(number)[0] == "200"
    first, second, third = came_from(started)
    assert ask_over_http2(started, "/open/2", host="allowed.test", method="GET")[0] == 200
    assert came_from(started)[-1] == second
    assert second not in (first, third)


@pytest.mark.parametrize("end", ["head", "trailers"])
def test_a_body_shorter_than_its_content_length_does_not_consume_the_next_request(started: Pair, end: str) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(ok(b"early"))
        stream.recv(9)

    started.server.answers |= {"/open/cut": answer, "/open/good": ok(b"good")}
    started.forget()
    with started.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        number = client.h2.get_next_available_stream_id()
        head = [*request_fields("/open/cut", "allowed.test", "POST"), ("content-length", "9")]
        client.h2.send_headers(number, head, end_stream=end == "head")
        if end == "trailers":
            client.h2.send_data(number, b"1234")
            client.h2.send_headers(number, [("content-length", "4")], end_stream=True)
        client.flush()
        assert client.answer(number) == ("closed", b"")
    assert started.proxy.line(event="malformed")["reason"] == "the body is shorter than its content-length"
    assert ask_over_http2(started, "/open/good", host="allowed.test", method="GET") == (200, b"good")
    assert "/open/good" in started.server.requests[-1].line


def test_requests_with_different_secret_values_do_not_share_a_connection(pair: Pair) -> None:
    for path in ("/open/1", "/one/1", "/two/1", "/open/2", "/one/2", "/two/2"):
        assert ask(pair, path)[0] == 200
    set_secret(pair, "one", "second-value-of-one")
    assert ask(pair, "/one/3")[0] == 200
    used: dict[str, set[int]] = {}
    for request in pair.server.requests:
        used.setdefault("".join(request.field("authorization")), set()).add(request.client)
    values = ["", *(f"Bearer {value}" for value in ("first-value-of-one", "first-value-of-two", "second-value-of-one"))]
    assert sorted(used) == sorted(values)
    assert sorted(map(len, used.values())) == [1, 1, 1, 1]
    assert len(set.union(*used.values())) == 4


def test_does_not_share_a_connection_that_a_client_authenticated(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test") as stream:
        for fields in (NTLM, ()):  # the first request authenticates the connection
            stream.sendall("\r\n".join(("GET /open/1 HTTP/1.1", "Host: allowed.test", *fields, "", "")).encode())
            assert read_answer(stream)[0] == 200
        ask(pair, "/open/2")
    ask(pair, "/open/2")
    one, other = came_from(pair)[:2], came_from(pair)[2:]
    assert (len(set(one)), len(set(other)), set(one) & set(other)) == (1, 1, set())


@pytest.mark.parametrize("challenge", ["NTLM", "Negotiate", 'Basic realm="x", NTLM'])
def test_does_not_share_a_connection_on_which_the_server_requires_authentication(pair: Pair, challenge: str) -> None:
    refused = ok(b"no", f"WWW-Authenticate: {challenge}".encode()).replace(b"200 OK", b"401 No")
    pair.server.answers["/open/closed"] = refused
    assert ask(pair, "/open/closed")[0] == 401
    ask(pair, "/open/1")
    first, second = came_from(pair)
    assert first != second


MOVED = POLICY.replace("{host: allowed.test, rules", "{host: other.test, rules")


@pytest.mark.parametrize("new", [POLICY, MOVED])
def test_a_reload_closes_idle_server_connections(pair: Pair, new: str) -> None:
    closed = threading.Event()

    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(ok(b"x"))
        if not stream.recv(1):
            closed.set()

    pair.server.answers["/open/1"] = answer
    assert ask(pair, "/open/1")[0] == 200
    reload(pair, new)
    assert closed.wait(30)
    assert ask(pair, "/open/2")[0] == (403 if "other.test" in new else 200)
    assert len(set(came_from(pair))) == len(came_from(pair))


def test_closes_the_server_connection_of_a_client_that_disconnects_within_a_response(pair: Pair) -> None:
    closed = threading.Event()

    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        try:
            stream.recv(1)
        finally:
            closed.set()

    pair.server.answers["/open/half"] = answer
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(b"GET /open/half HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        assert read_head(stream).startswith(b"HTTP/1.1 200")
    assert closed.wait(30)
    assert ask(pair, "/open/1")[0] == 200
    assert len(set(came_from(pair))) == 2


def test_no_request_fails_because_the_server_closed_an_idle_connection(pair: Pair) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(ok(b"x"))  # and close

    pair.server.answers["/open/last"] = answer
    for _ in range(5):
        assert ask(pair, "/open/last")[0] == 200
        time.sleep(0.02)
        assert ask(pair, "/open/2", "Content-Length: 0", method="POST")[0] == 200
