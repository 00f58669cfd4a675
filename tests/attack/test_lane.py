"""The same bytes through both HTTP/1.1 paths: server, client and records get the same."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from capture_server import Capture
from certificates import make_authority
from proxy_stand import ProxyProcess, get
from response_shapes import REJECTED

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = """\
version: 1
settings: {http1: %s}
domains:
  - host: allowed.test
    rules: [{path: {prefix: /a}}, {path: {exact: /small}, max_body: 5}]
"""
HOST = "allowed.test"
# Of a record, what differs by itself.
OWN = ("ts", "time", "duration_ms")
REQUESTS = {
    "allowed": get("/a", HOST),
    "two in a row": get("/a", HOST).replace(b"Connection: close\r\n", b"") + get("/a/b", HOST),
    "denied": get("/b", HOST),
    "head": get("/a", HOST, method="HEAD"),
    "HTTP/1.0": get("/a", HOST).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a body": get("/a", HOST, "Content-Length: 5", method="POST") + b"hello",
    "chunks": get("/a", HOST, "Transfer-Encoding: chunked", method="POST") + b"5;x=y\r\nhello\r\n0\r\n\r\n",
    "expect": get("/a", HOST, "Content-Length: 5", "Expect: 100-continue", method="POST") + b"hello",
    "too large": get("/small", HOST, "Content-Length: 6", method="POST") + b"hello!",
    "too large chunks": get("/small", HOST, "Transfer-Encoding: chunked", method="POST") + b"6\r\nhello!\r\n0\r\n\r\n",
    "bad chunks": get("/a", HOST, "Transfer-Encoding: chunked", method="POST") + b"zz\r\n",
    "another host": get("/a", "evil.test"),
    "bare LF": b"GET /a HTTP/1.1\nHost: allowed.test\n\n",
    "two lengths": get("/a", HOST, "Content-Length: 5", "Content-Length: 6", method="POST") + b"hello!",
    "both framings": get("/a", HOST, "Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
    "a full URL": get("https://allowed.test/a", HOST),
    "CONNECT": get("allowed.test:443", HOST, method="CONNECT"),
    "hop-by-hop": get("/a", HOST, "Keep-Alive: 5", "X-Forwarded-Host: evil.test", "Upgrade: h2c"),
    "another upgrade": get("/a", HOST, "Upgrade: other"),
    "encoded slash": get("/a%2f..%2fb", HOST),
}
ANSWERS = {
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\n\r\nok",
    "early hints": b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "no content": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "a switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    "Alt-Svc": b'HTTP/1.1 200 OK\r\nAlt-Svc: h3=":443"\r\nContent-Length: 2\r\n\r\nok',
    "half a head": b"HTTP/1.1 200 OK\r\nX",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
    **{name: answer for name, (answer, _) in REJECTED.items()},
}


@dataclass
class Paths:
    """A proxy with each path, before the same server."""

    server: Capture
    proxies: list[ProxyProcess]

    def both(self, request: bytes) -> list[tuple[bytes, bytes, list[dict[str, Any]]]]:
        """Send a request through each; return what the server got, what came back, and the records."""
        return [self._one(proxy, request) for proxy in self.proxies]

    def _one(self, proxy: ProxyProcess, request: bytes) -> tuple[bytes, bytes, list[dict[str, Any]]]:
        self.server.forget()
        proxy.forget()
        answer = proxy.ask(HOST, request)
        proxy.line(host=HOST)
        records = [{key: value for key, value in line.items() if key not in OWN} for line in proxy.lines]
        return b"".join(one.head + b"|" + one.body for one in self.server.requests), answer, records


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paths]:
    """Start them once."""
    folder = tmp_path_factory.mktemp("paths")
    authority = make_authority(folder, [HOST])
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Capture(certificate=folder / "leaf.pem"))
        proxies = []
        for path in ("lane", "mitmproxy"):
            (folder / path).mkdir()
            proxy = ProxyProcess(
                folder / path, POLICY % path, resolve={(HOST, 443): server.port}, upstream_ca=authority
            )
            proxies.append(stack.enter_context(proxy))
        yield Paths(server, proxies)


@pytest.mark.parametrize("name", REQUESTS)
def test_both_paths_treat_a_request_the_same(paths: Paths, name: str) -> None:
    lane, mitmproxy = paths.both(REQUESTS[name])
    assert lane == mitmproxy


@pytest.mark.parametrize("name", ANSWERS)
def test_both_paths_treat_a_response_the_same(paths: Paths, name: str) -> None:
    paths.server.answers["/a/odd"] = lambda stream, _: stream.sendall(ANSWERS[name])
    lane, mitmproxy = paths.both(get("/a/odd", HOST))
    assert lane == mitmproxy
