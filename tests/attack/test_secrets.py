"""Secrets reach only their server, and the client cannot read them, whatever is requested or echoed."""

import gzip
import json
import re
import socket
import threading
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import override
from urllib.parse import quote

import brotli  # type: ignore[import-untyped]
import h2.connection
import h2.events
import pytest
import zstandard

from agent_sandbox.proxy.secrets.store import put_secret, remove_secret
from agent_sandbox.proxy.wire.websocket_frames import BINARY, CLOSE, CONTINUES, PING, TEXT
from agent_sandbox.proxy.wire.websocket_frames import frame as server_frame
from capture_server import ok
from http2client import Http2Client, fields
from http2server import Http2Server
from proxy_pair import Pair, start_pair
from proxy_stand import ProxyProcess, get, read_answer, read_head
from websocket_client import handshake, switch

VALUE = "s3cr3t/with+signs=and&more\"\\'<0123456789>"
BEARER = "{secret: tracker.token, transform: {type: bearer}}"
RAW = "{secret: tracker.token, transform: {type: raw}}"
BASIC = "{secret: tracker.token, transform: {type: basic, username: bot}}"
POLICY = f"""\
version: 1
domains:
  - host: allowed.test
    transform: {{request: {{headers: {{Authorization: {BEARER}}}}}}}
    rules: [{{path: {{prefix: /issues/}}}}]
  - host: allowed.test
    transform: {{request: {{headers: {{Authorization: {BASIC}}}, on_existing_header: replace}}}}
    rules: [{{path: {{prefix: /wiki/}}}}]
  - host: allowed.test
    transform: {{request: {{headers: {{X-API-Key: {RAW}}}}}}}
    rules: [{{path: {{prefix: /keyed/}}}}]
  - host: allowed.test
    transform: {{request: {{query: {{key: {{secret: tracker.token}}}}}}}}
    rules: [{{path: {{prefix: /asked/}}}}]
  - host: "*.wild.test"
    transform: {{request: {{headers: {{Authorization: {BEARER}}}}}}}
  - {{host: allowed.test, rules: [{{path: {{prefix: /open/}}}}]}}
"""
OTHER = POLICY.replace("secret: tracker.token", "secret: other")
WITHOUT = "version: 1\ndomains: [allowed.test]\n"


def seen_as() -> Iterator[bytes]:
    """Yield all forms in which a client could read the value, or its beginning."""
    yield VALUE[:12].encode()
    for text in (VALUE, f"bot:{VALUE}"):
        yield text.encode()
        yield b64encode(text.encode())
    yield json.dumps(VALUE)[1:-1].encode()
    yield quote(VALUE, safe="").encode()
    yield VALUE.encode().hex().encode()


SEEN_AS = tuple(seen_as())


def shows(data: bytes) -> list[bytes]:
    """Return the forms of the value that `data` contains, also within base64."""
    packed = [word + b"=" * (-len(word) % 4) for word in re.findall(rb"[\w+/]{24,}", data)]
    unpacked = b" ".join(b64decode(word) for word in packed)
    return [form for form in SEEN_AS if form in data + b" " + unpacked]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy with a secret for one of two hosts."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "state" / "secrets").mkdir(parents=True)
    with start_pair(folder, POLICY) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Iterator[Pair]:
    """The same, with its policy, its secret and empty records. Afterwards, no record may contain the value."""
    started.proxy.reload(POLICY)
    put_secret(secrets_of(started), "tracker.token", ["allowed.test"], VALUE.encode())
    started.server.answers.clear()
    started.forget()
    yield started
    assert shows(json.dumps(started.proxy.lines).encode() + started.proxy.errors.encode()) == []


def secrets_of(pair: Pair) -> Path:
    return pair.proxy.folder / "state" / "secrets"


def arrived(pair: Pair) -> list[list[str]]:
    """Return the credentials of each request that arrived."""
    return [request.field("authorization") for request in pair.server.requests]


def test_injects_the_secret_for_its_server(pair: Pair) -> None:
    assert pair.proxy.ask("allowed.test", get("/issues/1", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert arrived(pair) == [[f"Bearer {VALUE}"]]
    line = pair.proxy.line(path="/issues/1")
    assert line["reason"] == "allowed by policy.yaml:5, with secret tracker.token in authorization"


def test_injects_a_raw_secret_as_the_whole_header_and_redacts_its_echo(pair: Pair) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        (key,) = pair.server.requests[-1].field("x-api-key")
        stream.sendall(ok(f"unknown key {key}".encode(), f"X-You-Sent: {key}".encode()))

    pair.server.answers["/keyed/1"] = answer
    got = pair.proxy.ask("allowed.test", get("/keyed/1", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 200")
    assert pair.server.requests[0].field("x-api-key") == [VALUE]
    assert b"unknown key *" in got
    assert shows(got) == []


def test_redacts_a_query_secret_in_redirects_and_audit_records(pair: Pair) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        target = pair.server.requests[-1].line.split(" ")[1]
        stream.sendall(ok(target.encode(), f"Location: {target}".encode()).replace(b"200 OK", b"302 Found"))

    pair.server.answers["/asked/1"] = answer
    got = pair.proxy.ask("allowed.test", get("/asked/1?a=1", "allowed.test"))
    assert pair.server.requests[0].line == f"GET /asked/1?a=1&key={quote(VALUE, safe='')} HTTP/1.1"
    assert b"Location: /asked/1?a=1&key=***" in got
    assert shows(got) == []
    assert pair.proxy.ask("allowed.test", get("/asked/1?key=own", "allowed.test")).startswith(b"HTTP/1.1 403")
    line = pair.proxy.line(path="/asked/1")
    assert line["reason"].endswith("with secret tracker.token in ?key")


BROUGHT = {
    "one": ("Authorization: Bearer own",),
    "two": ("Authorization: Bearer own", "authorization: Basic b3duOm93bg=="),
    "in another case": ("AUTHORIZATION: Bearer own",),
    "the name of the secret": ("Authorization: Bearer tracker.token",),
    "said to end at the proxy": ("Connection: authorization", "Authorization: Bearer own"),
    "folded": ("Authorization: Bearer", " own"),
}


@pytest.mark.parametrize("brought", BROUGHT)
def test_denies_or_replaces_a_credential_that_the_agent_sends(pair: Pair, brought: str) -> None:
    answer = pair.proxy.ask("allowed.test", get("/issues/1", "allowed.test", *BROUGHT[brought]))
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
    assert pair.server.requests == []
    answer = pair.proxy.ask("allowed.test", get("/wiki/1", "allowed.test", *BROUGHT[brought]))
    basic = b64encode(f"bot:{VALUE}".encode()).decode()
    assert arrived(pair) == ([] if answer.startswith(b"HTTP/1.1 400") else [[f"Basic {basic}"]])


def test_sends_no_secret_to_another_host_or_port_or_over_plain_http(pair: Pair) -> None:
    status, body = ask(pair, "a.wild.test", get("/issues/1", "a.wild.test"))
    assert (status, body["reason"]) == (403, "secret tracker.token is not bound to a.wild.test")
    with pair.proxy.connect() as connection:
        connection.sendall(get("http://allowed.test/issues/1", "allowed.test"))
        assert read_answer(connection)[0] == 403
    with pair.proxy.connect() as connection:
        connection.sendall(b"CONNECT allowed.test:8443 HTTP/1.1\r\nHost: allowed.test:8443\r\n\r\n")
        assert read_head(connection).startswith(b"HTTP/1.1 403")
    assert (pair.server.requests, pair.plain.requests) == ([], [])


def ask(pair: Pair, host: str, request: bytes) -> tuple[int, dict[str, str]]:
    with pair.proxy.tls(host) as stream:
        stream.sendall(request)
        status, body = read_answer(stream)
    told: dict[str, str] = json.loads(body)
    return status, told


def test_does_not_replace_the_name_of_a_secret_in_a_header(pair: Pair) -> None:
    stand_in = "Authorization: Bearer tracker.token"
    assert pair.proxy.ask("allowed.test", get("/open/x", "allowed.test", stand_in)).startswith(b"HTTP/1.1 200")
    assert arrived(pair) == [["Bearer tracker.token"]]


@pytest.mark.parametrize(
    ("tunnel", "sni", "host"),
    [
        ("a.wild.test", "", "allowed.test"),
        ("a.wild.test", "allowed.test", "allowed.test"),
        ("allowed.test", "a.wild.test", "allowed.test"),
        ("allowed.test", "", "a.wild.test"),
    ],
)
def test_sends_no_secret_if_tunnel_sni_and_host_differ(pair: Pair, tunnel: str, sni: str, host: str) -> None:
    try:
        with pair.proxy.tls(tunnel, sni=sni) as stream:
            stream.sendall(get("/issues/1", host))
            assert read_head(stream).startswith(b"HTTP/1.1 403")
    except (OSError, AssertionError) as refused:
        assert sni, refused  # noqa: PT017 - a mismatch ends the connection
    assert (pair.server.requests, shows(bytes(pair.server.raw))) == ([], [])


def test_sends_no_secret_to_a_server_without_a_valid_certificate(tmp_path: Path) -> None:
    (tmp_path / "state" / "secrets").mkdir(parents=True)
    put_secret(tmp_path / "state" / "secrets", "tracker.token", ["c.test"], VALUE.encode())
    with start_pair(tmp_path, POLICY.replace('"*.wild.test"', "c.test")) as pair:
        override = f"--resolve=c.test:443:127.0.0.1:{pair.server.port}"
        with ProxyProcess(tmp_path, pair.proxy.policy, more=(override,)) as proxy:
            assert proxy.ask("c.test", get("/x", "c.test")).startswith(b"HTTP/1.1 502")
        assert shows(bytes(pair.server.raw)) == []


def test_injects_no_secret_while_the_projects_policy_adds_a_ca(pair: Pair) -> None:
    (pair.proxy.folder / "own.crt").write_bytes((pair.proxy.folder / "ca.crt").read_bytes())
    pair.proxy.reload(f"{POLICY}settings: {{upstream: {{ca: own.crt}}}}\n")
    status, told = ask(pair, "allowed.test", get("/issues/1", "allowed.test"))
    assert (status, told["reason"]) == (
        403,
        "no secret is sent while the project's policy adds a CA, which can sign for every host",
    )
    assert pair.proxy.ask("allowed.test", get("/open/1", "allowed.test")).startswith(b"HTTP/1.1 200")
    assert arrived(pair) == [[]]


def test_changing_or_removing_a_secret_takes_effect_at_once(pair: Pair) -> None:
    put_secret(secrets_of(pair), "tracker.token", ["allowed.test"], b"another value")
    assert pair.proxy.ask("allowed.test", get("/issues/1", "allowed.test")).startswith(b"HTTP/1.1 200")
    remove_secret(secrets_of(pair), "tracker.token")
    status, told = ask(pair, "allowed.test", get("/issues/1", "allowed.test"))
    assert (status, told["reason"], told["hint"]) == (
        403,
        "the proxy has no secret tracker.token",
        "agent-sandbox secret set tracker.token --host allowed.test",
    )
    assert arrived(pair) == [["Bearer another value"]]


type Echo = Callable[[str], bytes]


def body(write: Callable[[str], str | bytes]) -> Echo:
    def answer(credential: str) -> bytes:
        written = write(credential)
        return ok(written if isinstance(written, bytes) else written.encode("latin-1"))

    return answer


def chunked(size: int) -> Echo:
    def answer(credential: str) -> bytes:
        text = f"you sent {credential} to me".encode()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    return answer


ECHOES: dict[str, Echo] = {
    "plain": body(lambda text: f"you sent {text}"),
    "twice": body(lambda text: f"{text}{text}"),
    "JSON": body(lambda text: json.dumps({"headers": {"Authorization": text}})),
    "an address": body(lambda text: f"/next?token={quote(text, safe='')}"),
    "base64 of a whole": body(lambda text: b64encode(json.dumps({"a": 1, "sent": text}).encode())),
    "hex": body(lambda text: text.encode().hex()),
    "a field": lambda text: ok(b"x", f"X-You-Sent: {text}".encode()),
    "the phrase": lambda text: f"HTTP/1.1 200 OK {text}\r\nContent-Length: 0\r\n\r\n".encode(),
    "an error page": lambda text: ok(f"unknown token {text}".encode()).replace(b"200 OK", b"401 Unauthorized"),
    "a redirect": lambda text: ok(b"", f"Location: /x?{quote(text, safe='')}".encode()).replace(
        b"200 OK", b"302 Found"
    ),
    "byte by byte": chunked(1),
    "chunk by chunk": chunked(7),
    "trailers": lambda text: (
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: {text}\r\n\r\n".encode()
    ),
    "an answer before the answer": lambda text: (
        f"HTTP/1.1 103 Early Hints\r\nLink: <{text}>\r\n\r\n".encode() + ok(b"done")
    ),
    "packed": lambda text: ok(gzip.compress(text.encode()), b"Content-Encoding: gzip"),
    "said to be packed": lambda text: ok(text.encode(), b"Content-Encoding: br"),
    "until the end": lambda text: f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{text}".encode(),
    "a field without a name": lambda text: f"HTTP/1.1 400 No\r\nyou sent {text}\r\n\r\n".encode(),
    "a field's name": lambda text: f"HTTP/1.1 200 OK\r\n{text}: x\r\n\r\n".encode(),
    "a length": lambda text: f"HTTP/1.1 200 OK\r\nContent-Length: {text}\r\n\r\n".encode(),
    "a chunk's length": lambda text: f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{text}\r\n\r\n".encode(),
    "the name of an encoding": lambda text: ok(b"", f"Content-Encoding: {text}".encode()),
    "a head that ends in the middle": lambda text: f"HTTP/1.1 401 {text}".encode(),
    "cut": lambda text: f"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{text}".encode(),
}


@pytest.mark.parametrize("path", ["/issues/echo", "/wiki/echo"])
@pytest.mark.parametrize("name", ECHOES)
def test_no_echo_of_the_secret_reaches_the_client(pair: Pair, name: str, path: str) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        (credential,) = pair.server.requests[-1].field("authorization")
        stream.sendall(ECHOES[name](credential))

    pair.server.answers[path] = answer
    got = pair.proxy.ask("allowed.test", get(path, "allowed.test"))
    assert got.startswith(b"HTTP/1.1 ")
    assert shows(got) == []
    assert len(pair.server.requests) == 1


def each_character(write: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "".join(write(ord(char)) for char in text)


def in_turn(*writes: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "".join(write(ord(char)) for write, char in zip(cycle(writes), text, strict=False))


def mustache(text: str) -> str:
    return re.sub("[&<>\"'`=/]", lambda found: f"&#x{ord(found[0]):X};", text)


ESCAPED = {
    "Mustache": mustache,
    "Go's html/template": lambda text: re.sub("[&<>\"'+]", lambda found: f"&#{ord(found[0])};", text),
    "JavaScript": lambda text: re.sub(r"\W", lambda found: f"\\x{ord(found[0]):02x}", text),
    "JSON in capitals": lambda text: re.sub(r"\W", lambda found: f"\\u{ord(found[0]):04X}", text),
    "all of a URL": each_character("%{:02X}".format),
    "all of JSON": each_character("\\u{:04x}".format),
    "all of HTML": each_character("&#{};".format),
    "all of HTML in hex": each_character("&#x{:06X}".format),
    "all of C": each_character("\\{:03o}".format),
    "all of Rust": each_character("\\u{{{:x}}}".format),
    "all of CSS": each_character("\\{:06x}".format),
    "a format string": lambda text: quote(text, safe="").replace("%", "%%"),
    "a shell": lambda text: re.sub(r"\W", r"\\\g<0>", text),
    "names": lambda text: text.replace("&", "&AMP;").replace("/", "&sol;").replace("=", "&equals"),
    "many ways at once": in_turn(chr, "%{:02x}".format, "&#{}".format, "\\x{:02X}".format, "&#X{:x};".format),
}


@pytest.mark.parametrize("path", ["/issues/echo", "/wiki/echo"])
@pytest.mark.parametrize("write", ESCAPED.values(), ids=ESCAPED)
def test_redacts_echoes_with_escaped_characters(pair: Pair, write: Callable[[str], str], path: str) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        text = repeated(pair.server.requests[-1].field("authorization")[0]).encode()
        pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
        stream.sendall(b"HTTP/1.1 200 %s\r\nX: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % (text, text))
        for piece in pieces:
            stream.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        stream.sendall(b"0\r\n\r\n")

    def repeated(credential: str) -> str:
        return write(credential.partition(" ")[2].rstrip("="))

    pair.server.answers[path] = answer
    got = pair.proxy.ask("allowed.test", get(path, "allowed.test"))
    assert got.startswith(b"HTTP/1.1 200 *")
    (credential,) = pair.server.requests[-1].field("authorization")
    assert got.count(b"*") == 3 * len(repeated(credential))
    assert shows(got) == []


def test_redacts_an_escaped_echo_in_a_body_that_ends_with_the_connection(pair: Pair) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        text = mustache(pair.server.requests[-1].field("authorization")[0]).encode()
        stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text[:-1])
        stream.sendall(text[-1:])

    pair.server.answers["/issues/echo"] = answer
    got = pair.proxy.ask("allowed.test", get("/issues/echo", "allowed.test"))
    assert got.endswith(b"\r\n\r\nBearer " + b"*" * len(mustache(VALUE)))


@pytest.mark.parametrize(
    ("field", "write"),
    [
        (b"Content-Encoding: gzip, gzip", gzip.compress),
        (b"Content-Encoding: compress", gzip.compress),
        (b"Transfer-Encoding: gzip\r\nConnection: close", gzip.compress),
        (b"Content-Type: text/plain; charset=utf-16", lambda text: text.decode().encode("utf-16")),
        (b"Content-Type: text/plain; charset=IBM1047", lambda text: text.decode().encode("cp500")),
    ],
)
def test_rejects_a_response_that_cannot_be_searched_for_echoes(
    pair: Pair, field: bytes, write: Callable[[bytes], bytes]
) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        (credential,) = pair.server.requests[-1].field("authorization")
        stream.sendall(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n%s" % (field, write(credential.encode())))

    pair.server.answers["/issues/echo"] = answer
    assert pair.proxy.ask("allowed.test", get("/issues/echo", "allowed.test")).startswith(b"HTTP/1.1 502")


@pytest.mark.parametrize(
    ("field", "write"),
    [
        (b"Content-Encoding: gzip", gzip.compress),
        (b"Content_Encoding: x-gzip", gzip.compress),
        (b"Content-Encoding: deflate", zlib.compress),
        (b"Content-Encoding: br", brotli.compress),
        (b"Content-Encoding: zstd", zstandard.compress),
    ],
)
def test_decompresses_and_redacts_a_compressed_response(
    pair: Pair, field: bytes, write: Callable[[bytes], bytes]
) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        (credential,) = pair.server.requests[-1].field("authorization")
        stream.sendall(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n%s" % (field, write(f"<{credential}>".encode())))

    pair.server.answers["/issues/echo"] = answer
    got = pair.proxy.ask("allowed.test", get("/issues/echo", "allowed.test"))
    assert got.startswith(b"HTTP/1.1 200")
    assert b"<Bearer " + b"*" * len(VALUE) + b">" in got
    assert shows(got) == []


def test_a_second_response_does_not_answer_the_next_request(pair: Pair) -> None:
    asked = threading.Event()

    def answer(stream: socket.socket, _: bytes) -> None:
        (credential,) = pair.server.requests[-1].field("authorization")
        stream.sendall(ok(b"one"))
        asked.wait(30)
        stream.sendall(ok(credential.encode()))

    pair.server.answers["/issues/two"] = answer
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/issues/two", "allowed.test").replace(b"Connection: close\r\n", b""))
        assert read_answer(stream) == (200, b"one")
        stream.sendall(get("/open/1", "allowed.test"))
        pair.server.wait_for(2)
        asked.set()
        assert read_answer(stream) == (200, b"GET /open/1 HTTP/1.1")


def test_forwards_an_event_when_it_arrives(pair: Pair) -> None:
    seen = threading.Event()

    def answer(stream: socket.socket, _: bytes) -> None:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n")
        assert seen.wait(30)

    pair.server.answers["/issues/events"] = answer
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/issues/events", "allowed.test"))
        assert read_head(stream).startswith(b"HTTP/1.1 200")
        assert b"data: x\n\n" in stream.recv(100)
        seen.set()


HIDING = ("Request-Range: bytes=0-3", "Accept-Charset: utf-16", "grpc-accept-encoding: gzip", "A-IM: gzip")


def test_removes_headers_that_ask_for_parts_or_encodings_of_a_response(pair: Pair) -> None:
    hiding = (
        "Range: bytes=0-3",
        "If-Range: x",
        "Accept-Encoding: br, gzip",
        "Accept_Encoding: br",
        "TE: gzip",
        *HIDING,
    )
    pair.proxy.ask("allowed.test", get("/issues/1", "allowed.test", *hiding))
    (request,) = pair.server.requests
    names = ("range", "if-range", "accept_encoding", "te", *(one.partition(":")[0].lower() for one in HIDING))
    assert {name: request.field(name) for name in names} == {name: [] for name in names}
    assert request.field("accept-encoding") == ["identity"]


def test_redacts_echoes_over_a_websocket(pair: Pair) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        credential = pair.server.requests[-1].field("authorization")[0].encode()
        switch(stream)
        for at in range(len(credential)):  # in fragments, with another echo between them
            stream.sendall(server_frame(TEXT if not at else CONTINUES, credential[at : at + 1], ends=False))
            stream.sendall(server_frame(PING, credential, ends=True))
        stream.sendall(server_frame(CONTINUES, b"", ends=True))
        stream.sendall(server_frame(BINARY, b64encode(credential), ends=True))
        stream.sendall(server_frame(CLOSE, b"\x03\xe8" + credential, ends=True))

    pair.server.answers["/issues/ws"] = answer
    with pair.proxy.tls("allowed.test") as stream:
        offer = b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        stream.sendall(handshake("/issues/ws").removesuffix(b"\r\n") + offer)
        got = b"".join(iter(lambda: stream.recv(65_536), b""))
    assert got.startswith(b"HTTP/1.1 101")
    (request,) = pair.server.requests
    assert (request.field("authorization"), request.field("sec-websocket-extensions")) == ([f"Bearer {VALUE}"], [])
    assert got.count(b"*" * len(VALUE)) > len(VALUE)
    assert shows(got) == []
    message, rest = b"", got.partition(b"\r\n\r\n")[2]
    while rest[0] != 0x80 | BINARY:
        message += rest[2 : 2 + rest[1]] if rest[0] != 0x80 | PING else b""
        rest = rest[2 + rest[1] :]
    assert message == b"Bearer " + b"*" * len(VALUE)
    assert pair.proxy.line(path="/issues/ws")["secrets"][0]["secret"] == "tracker.token"


def test_injects_secrets_into_http2_requests(pair: Pair) -> None:
    with pair.proxy.tls("allowed.test", alpn=("h2",)) as stream:
        client = Http2Client(stream)
        own = ("authorization", "Bearer own")
        answers = [
            client.status(client.send(*fields("/issues/1"))),
            client.status(client.send(*fields("/issues/2"), own)),
            client.status(client.send(*fields("/wiki/1"), own)),
            client.status(client.send(*fields("/open/1"))),
        ]
    assert answers == ["200", "403", "200", "200"]
    basic = b64encode(f"bot:{VALUE}".encode()).decode()
    assert arrived(pair) == [[f"Bearer {VALUE}"], [f"Basic {basic}"], []]


class EchoingServer(Http2Server):
    """A server that echoes the credential in headers, body and trailers."""

    write: Callable[[str], str] = str

    @override
    def _handle(self, engine: h2.connection.H2Connection, event: h2.events.Event, sizes: dict[int, int]) -> None:
        if isinstance(event, h2.events.StreamEnded):
            sent = type(self).write(self.requests[-1]["authorization"])
            engine.send_headers(event.stream_id, [(":status", "200"), ("x-sent", sent)])
            engine.send_data(event.stream_id, f"you sent {sent}".encode())
            engine.send_headers(event.stream_id, [("grpc-message", sent)], end_stream=True)
        else:
            super()._handle(event=event, engine=engine, sizes=sizes)


@contextmanager
def echoing_over_http2(folder: Path) -> Iterator[tuple[ProxyProcess, EchoingServer]]:
    (folder / "state" / "secrets").mkdir(parents=True)
    put_secret(folder / "state" / "secrets", "tracker.token", ["allowed.test"], VALUE.encode())
    with (
        start_pair(folder, POLICY) as pair,
        EchoingServer(folder / "leaf.pem") as server,
        ProxyProcess(
            folder,
            pair.proxy.policy,
            resolve={("allowed.test", 443): server.port},
            upstream_ca=pair.proxy.upstream_ca,
        ) as proxy,
    ):
        yield proxy, server


@pytest.mark.parametrize("write", [str, mustache, ESCAPED["many ways at once"]])
def test_redacts_echoes_of_an_http2_server(
    tmp_path: Path, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EchoingServer, "write", staticmethod(write))
    heard = b""
    with (
        echoing_over_http2(tmp_path) as (proxy, server),
        proxy.tls("allowed.test", alpn=("h2",)) as stream,
    ):
        client = Http2Client(stream)
        client.send(*fields("/issues/1"))
        while b"grpc-message" not in heard:
            for event in client.h2.receive_data(stream.recv(65536)):
                heard += repr(getattr(event, "headers", getattr(event, "data", b""))).encode()
            client.flush()
    assert server.requests[0]["authorization"] == f"Bearer {VALUE}"
    assert heard.count(b"*" * (len(write(f"Bearer {VALUE}")) - len(write("Bearer ")))) == 3
    assert shows(heard) == []


def test_a_reload_that_adds_a_secret_aborts_requests_sent_without_it(pair: Pair) -> None:
    pair.proxy.reload(WITHOUT)
    begun, answered = threading.Event(), threading.Event()

    def wait(_: socket.socket, __: bytes) -> None:
        begun.set()
        answered.wait(30)

    pair.server.answers["/issues/1"] = wait
    with pair.proxy.tls("allowed.test") as stream:
        stream.sendall(get("/issues/1", "allowed.test"))
        assert begun.wait(30)
        pair.proxy.reload(OTHER)
        assert read_head(stream).startswith(b"HTTP/1.1 403")
    answered.set()
