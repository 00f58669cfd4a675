"""A few bytes of a server that make much work delay neither other clients nor a reload that narrows the policy."""

import contextlib
import gzip
import socket
import threading
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]
import pytest

from agent_sandbox.proxy.secrets.store import put_secret
from capture_server import ok
from http2client import Http2Client, fields
from proxy_pair import Pair, start_pair
from proxy_stand import MITMPROXY_LOADED, get
from websocket_client import frame, handshake, switch

POLICY = """version: 1
domains:
- a.wild.test
- host: b.wild.test
  rules: [{path: {prefix: /mcp}, schemes: [https], mcp: {tools: [search]}}]
- host: allowed.test
  transform: {request: {headers: {X-Key: {secret: token, transform: {type: raw}}}}}
"""
NARROWER = POLICY.replace("- a.wild.test\n", "")
ASKED = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
EVENTS = b"Content-Type: text/event-stream\r\nContent-Encoding: %s"
CONNECTIONS = 8


def write_frames(stream: socket.socket, _: bytes) -> None:
    switch(stream)
    with contextlib.suppress(OSError):
        stream.sendall(frame(b"v", masked=False) * 100_000)
        stream.recv(1)


# What a server answers, and to which request.
MCP, OWN, SOCKET = ("b.wild.test", "/mcp", "POST"), ("allowed.test", "/own", "GET"), ("allowed.test", "/ws", "GET")
COSTLY: dict[str, tuple[tuple[str, str, str], bytes | Callable[[socket.socket, bytes], None]]] = {
    "brotli of empty events": (MCP, ok(brotli.compress(b"\n" * 4_000_000), EVENTS % b"br")),
    "gzip of tiny events": (MCP, ok(gzip.compress(b"data:{}\n\n" * 450_000), EVENTS % b"gzip")),
    "backslashes": (OWN, ok(b"\\" * 4_000_000)),
    "nearly the secret": (OWN, ok(b"value-of-the-se%252" * 50_000)),
    "messages of one letter": (SOCKET, write_frames),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("expansions")
    (folder / "state" / "secrets").mkdir(parents=True)
    put_secret(folder / "state" / "secrets", "token", ["allowed.test"], b"value-of-the-se/cret+")
    with start_pair(folder, POLICY, sabotage=MITMPROXY_LOADED) as started:
        yield started


def begin(stream: socket.socket, asked: tuple[str, str, str], alpn: tuple[str, ...]) -> None:
    """Send the request."""
    host, path, method = asked
    body = ASKED if method == "POST" else None
    more = (("content-type", "application/json"), ("content-length", str(len(ASKED)))) if body else ()
    if alpn:
        Http2Client(stream).send(*fields(path, host, method), *more, body=body)  # type: ignore[arg-type] # over TLS
    else:
        said = handshake(path) if path == "/ws" else get(path, host, *map(": ".join, more), method=method)
        stream.sendall(said + (body or b""))


@contextlib.contextmanager
def flooded(pair: Pair, what: str, alpn: tuple[str, ...]) -> Iterator[None]:
    """Let clients read what the server answers, all at once."""

    def read(stream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while stream.recv(65_536):
                arrived.release()

    asked, answer = COSTLY[what]
    pair.server.answers[asked[1]] = answer
    arrived = threading.Semaphore(0)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(pair.proxy.tls(asked[0], alpn=alpn)) for _ in range(CONNECTIONS)]
        reading = [threading.Thread(target=read, args=(stream,)) for stream in streams]
        for stream, reader in zip(streams, reading, strict=True):
            begin(stream, asked, alpn)
            reader.start()
        assert all(arrived.acquire(timeout=30) for _ in streams)
        yield
        for stream in streams:
            stream.shutdown(2)
        for reader in reading:
            reader.join()


# A WebSocket is HTTP/1.1.
CASES = [
    (what, alpn) for what, (asked, _) in COSTLY.items() for alpn in ((), ("h2",)) if not (alpn and asked == SOCKET)
]


@pytest.mark.parametrize(("what", "alpn"), CASES)
def test_costly_responses_do_not_delay_other_clients_or_a_reload(pair: Pair, what: str, alpn: tuple[str, ...]) -> None:
    with flooded(pair, what, alpn):
        for _ in range(3):
            with pair.proxy.little_work():
                assert pair.proxy.say(get("http://evil.test/", "evil.test")).startswith(b"HTTP/1.1 403 ")
        with pair.proxy.little_work():
            pair.proxy.reload(NARROWER)
        assert pair.proxy.say(get("http://a.wild.test/", "a.wild.test")).startswith(b"HTTP/1.1 403 ")
    pair.proxy.reload(POLICY)
