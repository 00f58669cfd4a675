"""The server receives exactly what the proxy decided on, even for requests that programs read differently.

The tests compare the audit records with the raw bytes that the server got, as two other parsers read them.
HYPOTHESIS_PROFILE=deep runs more examples.
"""

import contextlib
import itertools
import posixpath
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from h2.exceptions import ProtocolError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ambiguous_parts
from agent_sandbox.policy import parse_request
from http2client import Http2Client
from independent_parsers import read_by_h11, read_by_mitmproxy
from proxy_pair import Pair, start_pair

POLICY = """\
version: 1
domains: [allowed.test, a.wild.test]
deny:
  - host: allowed.test
    rules: [{path: {prefix: /secret}}]
"""
type Message = tuple[tuple[bytes, list[bytes], list[bytes]], bytes, bytes]
type Asked = list[Message]
NUMBERS = itertools.count()
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy, and the server behind all its hosts."""
    with start_pair(tmp_path_factory.mktemp("differential"), POLICY) as pair:
        yield pair


def exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send bytes. Return what comes until the end, or until nothing arrives for a while."""
    connection.settimeout(0.3)
    answer = b""
    with contextlib.suppress(OSError):
        connection.sendall(data)
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def lines_of(pair: Pair, mark: str, raw: bytearray) -> list[dict[str, Any]]:
    """Return the audit records of an example. The server received its requests as `raw`."""
    pair.proxy.say(f"GET http://evil.test{mark}/last HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n".encode())
    pair.proxy.line(path=f"{mark}/last", host="evil.test")
    # The record of an aborted request is written when its connection has ended, which can be later.
    end = time.monotonic() + 30
    while time.monotonic() < end and len(_lines(pair)) < len(read_by_h11(bytes(raw))):
        time.sleep(0.01)
    return _lines(pair)


def _lines(pair: Pair) -> list[dict[str, Any]]:
    return [line for line in pair.proxy.lines if line["host"] != "evil.test"]


def assert_told_and_read_alike(lines: list[dict[str, Any]], raw: bytes) -> None:
    """Check that each request in the bytes was decided, and that both parsers read it the same."""
    received = read_by_h11(raw)
    assert read_by_mitmproxy(raw) == received
    # The server has a part of an aborted request, or nothing. A body that turned out malformed is a denial by then.
    told = [line for line in lines if line["decision"] == "allow" or _broke_off(line)]
    answered = [line for line in told if line["status"] == 200]
    read = Counter((one.method, one.target.partition("?")[0], one.hosts) for one in received)
    assert Counter(map(_told, answered)) <= read <= Counter(map(_told, told))
    assert sum(one.whole for one in received) >= len(answered)
    assert not any(one.target.startswith("/secret") for one in received)


def _broke_off(line: dict[str, Any]) -> bool:
    # The record of a request with a rejected head has no scheme: nothing of it was forwarded.
    return line["reason"].startswith("malformed body") and bool(line["scheme"])


def _told(line: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    port = {"http": 80, "https": 443}[line["scheme"]]
    return line["method"], line["path"], (line["host"] if line["port"] == port else f"{line['host']}:{line['port']}",)


def texts(parts: list[bytes]) -> st.SearchStrategy[str]:
    return st.sampled_from([part.decode("latin-1") for part in parts])


paths = st.lists(texts(ambiguous_parts.PATHS), max_size=6).map("".join)
queries = st.lists(texts([*ambiguous_parts.PATHS, b"?", b"=", b"[", b"]"]), max_size=4).map("".join)


@SHARED
@given(st.lists(st.tuples(paths, queries), min_size=8, max_size=8))
@example([("../secret", ""), ("%2e%2e/x", ""), ("x;/../secret", ""), ("x%2f..%2fsecret", ""), ("a/%61", "a=/../b")])
def test_server_receives_exactly_the_path_that_was_decided(pair: Pair, asked: list[tuple[str, str]]) -> None:
    pair.forget()
    mark = f"/{next(NUMBERS)}"
    targets = [f"{mark}/{number}/{path}" + (f"?{query}" if query else "") for number, (path, query) in enumerate(asked)]
    for target in targets:
        request = f"GET {target} HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"
        with pair.proxy.connect() as connection:
            exchange(connection, request.replace(" /", " http://allowed.test/", 1).encode("latin-1"))
    received = read_by_h11(bytes(pair.plain.raw))
    assert_told_and_read_alike(lines_of(pair, mark, pair.plain.raw), bytes(pair.plain.raw))
    for one in received:
        decided = parse_request(scheme="http", host="allowed.test", port=80, method="GET", target=one.target)
        assert decided.target == one.target
        # Decoding the path and then removing dots and slashes leads to the same path.
        decoded = unquote(decided.path)
        assert posixpath.normpath(decoded) == (decoded.rstrip("/") or "/")


def sometimes(usual: bytes, odd: list[bytes]) -> st.SearchStrategy[bytes]:
    """Draw the usual part half the time, because the first of two mistakes hides the other."""
    return st.one_of(st.just(usual), st.sampled_from(odd))


heads = st.tuples(
    sometimes(
        b"POST /%s HTTP/1.1\r\n",
        ambiguous_parts.STARTS + [b"%s /%%s HTTP/1.1\r\n" % method for method in ambiguous_parts.METHODS],
    ),
    st.lists(st.sampled_from(ambiguous_parts.FIELDS), max_size=1),
    st.lists(st.sampled_from(ambiguous_parts.FRAMINGS), min_size=1, max_size=2),
)
messages = st.lists(
    st.tuples(heads, st.sampled_from(ambiguous_parts.BODIES), st.sampled_from(ambiguous_parts.BEHIND)),
    min_size=1,
    max_size=2,
)


def classic(*framings: bytes, body: bytes, behind: bytes = ambiguous_parts.BEHIND[1]) -> Asked:
    """Return a textbook smuggling request."""
    return [((b"POST /%s HTTP/1.1\r\n", [], [*framings]), body, behind)]


CHUNKED = b"Transfer-Encoding: chunked"
REFUSED: Message = (
    (b"get /%s HTTP/1.1\r\n", [], [CHUNKED]),
    b"",
    b"",
)  # rejected for its head; its body is malformed, too


@SHARED
@given(messages, st.integers(0, 400))
@example(classic(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n"), 400)
@example(classic(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"), 400)
@example(classic(b"Content-Length: 5", b"Content-Length: 0", body=b"hello"), 400)
@example(classic(CHUNKED, CHUNKED + b", identity", body=b"0\r\n\r\n"), 400)
@example(classic(CHUNKED, body=b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"), 400)
@example(classic(CHUNKED, body=b"5;\n\r\nhello\r\n0\r\n\r\n"), 150)
@example(classic(b"X: a\r\n b", body=b""), 400)
@example(classic(b"Content-Length: 5", body=b"hello", behind=ambiguous_parts.BEHIND[2]), 60)
@example([REFUSED, *classic(b"Content-Length: 5", body=b"", behind=b"")], 69)
@pytest.mark.parametrize("way", ["to the proxy", "in a tunnel", "at its own port 80"])
def test_each_request_that_a_server_reads_was_decided(pair: Pair, way: str, asked: Asked, cut: int) -> None:
    pair.forget()
    mark = str(next(NUMBERS)).encode()
    data = b"".join(written(message, mark) for message in asked)
    if way == "to the proxy":
        data = data.replace(b" /", b" http://allowed.test/")
    with contextlib.ExitStack() as stack:
        if way == "in a tunnel":
            connection = stack.enter_context(pair.proxy.tunnel("allowed.test", 80))
        else:
            entrance = "http" if way == "at its own port 80" else "listening"
            connection = stack.enter_context(pair.proxy.connect(entrance=entrance))
        # In two packets: a parser can read pieces differently from the whole.
        with contextlib.suppress(OSError):
            connection.sendall(data[:cut])
            time.sleep(0.005)
        exchange(connection, data[cut:])
    assert_told_and_read_alike(lines_of(pair, f"/{mark.decode()}", pair.plain.raw), bytes(pair.plain.raw))


def written(message: Message, mark: bytes) -> bytes:
    (start, fields, framings), body, behind = message
    lines = b"".join(line + b"\r\n" for line in (*fields, *framings))
    return start.replace(b"%s", mark) + b"Host: allowed.test\r\n" + lines + b"\r\n" + body + behind.replace(b"%s", mark)


H2_BODIES = [None, b"", b"hello", b"0\r\n\r\nGET /secret HTTP/1.1\r\nHost: allowed.test\r\n\r\n"]


def heading(method: bytes, authority: bytes, path: bytes) -> list[tuple[str, str]]:
    named = {":method": method, ":scheme": b"https", ":authority": authority, ":path": path}
    return [(name, value.decode("latin-1")) for name, value in named.items()]


@SHARED
@given(
    st.tuples(sometimes(b"POST", ambiguous_parts.VERBS), sometimes(b"allowed.test", ambiguous_parts.AUTHORITIES)),
    st.one_of(st.none(), st.sampled_from(ambiguous_parts.TARGETS)),
    st.lists(st.tuples(texts(ambiguous_parts.NAMES), texts(ambiguous_parts.VALUES)), max_size=2),
    st.sampled_from(H2_BODIES),
)
def test_each_http2_stream_that_a_server_reads_was_decided(
    pair: Pair, named: tuple[bytes, bytes], target: bytes | None, more: list[tuple[str, str]], body: bytes | None
) -> None:
    pair.forget()
    mark = f"/{next(NUMBERS)}"
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        stream.settimeout(0.3)
        with contextlib.suppress(OSError, ProtocolError):
            client = Http2Client(stream)
            client.status(client.send(*heading(*named, target or mark.encode()), *more, body=body))
            client.status(client.send(*heading(b"GET", b"allowed.test", f"{mark}/2".encode())))
    assert_told_and_read_alike(lines_of(pair, mark, pair.server.raw), bytes(pair.server.raw))
