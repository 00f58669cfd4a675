"""The same bytes through both HTTP/1.1 paths, as whole proxies over TLS, must give the same results."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from capture_server import Capture
from certificates import make_authority
from http2client import Http2Client, fields
from proxy_stand import ProxyProcess, get, read_answer

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
# Fields of a record that always differ.
OWN = ("ts", "time", "duration_ms", "client")
# `test_both_paths.py` has many more, but without TLS.
REQUESTS = {
    "two in a row": get("/a", HOST).replace(b"Connection: close\r\n", b"") + get("/a/b", HOST),
    "denied": get("/b", HOST),
    "chunks": get("/a", HOST, "Transfer-Encoding: chunked", method="POST") + b"5;x=y\r\nhello\r\n0\r\n\r\n",
    "a full URL": get("https://allowed.test/a", HOST),
}
ANSWERS = {
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\n\r\nok",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
}


@dataclass
class Paths:
    """A proxy for each path, with the same server."""

    server: Capture
    proxies: list[ProxyProcess]

    def both(self, request: bytes) -> list[tuple[bytes, bytes, list[dict[str, Any]]]]:
        """Send a request through each. Return what the server got, the response and the records."""
        return [self._one(proxy, request) for proxy in self.proxies]

    def _one(self, proxy: ProxyProcess, request: bytes) -> tuple[bytes, bytes, list[dict[str, Any]]]:
        self.server.forget()
        proxy.forget()
        answer = proxy.ask(HOST, request)
        proxy.line(host=HOST)
        for one in self.server.requests:
            proxy.line(host=HOST, path=one.line.split()[1])
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
def test_both_paths_treat_a_request_over_tls_the_same(paths: Paths, name: str) -> None:
    lane, mitmproxy = paths.both(REQUESTS[name])
    assert lane == mitmproxy


@pytest.mark.parametrize("name", ANSWERS)
def test_both_paths_treat_a_response_over_tls_the_same(paths: Paths, name: str) -> None:
    paths.server.answers["/a/odd"] = lambda stream, _: stream.sendall(ANSWERS[name])
    lane, mitmproxy = paths.both(get("/a/odd", HOST))
    assert lane == mitmproxy


def test_the_lane_chooses_http1_for_clients_that_also_offer_http2(paths: Paths) -> None:
    paths.server.answers.clear()
    chosen, answers = [], []
    for proxy in paths.proxies:
        with proxy.tls(HOST, alpn=("h2", "http/1.1")) as stream:
            chosen.append(stream.selected_alpn_protocol())
            if chosen[-1] == "http/1.1":
                stream.sendall(get("/b", HOST).replace(b"Connection: close\r\n", b"") + get("/a", HOST))
                answers += [read_answer(stream)[0], read_answer(stream)[0]]
        with proxy.tls(HOST, alpn=("h2",)) as stream:
            client = Http2Client(stream)
            answers += [int(client.status(client.send(*fields(path, HOST)))) for path in ("/b", "/a")]
    assert chosen == ["http/1.1", "h2"]
    assert set(zip(answers[::2], answers[1::2], strict=True)) == {(403, 200)}


def test_does_not_resume_tls_sessions_with_servers(paths: Paths) -> None:
    context = paths.server._context
    assert context is not None
    for proxy in paths.proxies:
        before = context.session_stats()["accept_good"]
        for _ in range(3):
            assert proxy.ask(HOST, get("/a", HOST)).startswith(b"HTTP/1.1 200")
        # The server offered a session each time, and would have resumed it.
        assert (context.session_stats()["accept_good"] - before, context.session_stats()["hits"]) == (3, 0)
