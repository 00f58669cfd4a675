"""Connections of the lane: whatever a client and a server send, each forwarded request was decided and is recorded.

Most tests serve the connection in this process, a few milliseconds per example. HYPOTHESIS_PROFILE=deep runs more.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ambiguous_parts
from agent_sandbox.policy import Policy
from agent_sandbox.policyfile import load_policy
from http2client import Http2Client, fields
from independent_parsers import read_by_h11
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_all, read_answer
from response_shapes import ACCEPTED, REJECTED
from served_connection import ECHOED, POLICY, QUERY, SWITCH, TUNNEL, Answer, Connection, Seen
from table_tests import each
from websocket_client import frame, handshake

NAME = "allowed.test"
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    file = tmp_path_factory.mktemp("lane") / "policy.yaml"
    file.write_text(POLICY)
    return load_policy(file)


def served(
    policy: Policy, packets: tuple[bytes, ...], answers: tuple[Answer, ...] = (), *, halves: bool = False
) -> Seen:
    return asyncio.run(Connection(policy, answers).serve(packets, halves=halves))


def mostly(usual: Sequence[bytes], odd: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Draw an odd part once in twelve times, because the first of two mistakes hides the other."""
    return st.integers(0, 11).flatmap(lambda chance: st.sampled_from(usual if chance else odd))


corpus = ambiguous_parts.corpus
METHODS = corpus("GET|POST|POST|HEAD|PUT|OPTIONS")
TARGETS = corpus("/a|/a/b?c=d|/small|/graphql|/echo|/denied|/a/secret")
ODD_TARGETS = corpus(r"*|/a%2fb|/a/../secret|//evil.test/a|/a\xff|http://evil.test/a|/a#b|allowed.test:443")
VERSIONS = corpus("HTTP/1.1|HTTP/1.1|HTTP/1.0")
ODD_VERSIONS = corpus("HTTP/2.0|HTTP/1.10|http/1.1|")
HOST = [b"Host: allowed.test"]
ODD_HOSTS = corpus(r"Host: evil.test||Host: ALLOWED.test:80|Host: allowed.test\r\nHost: allowed.test")
FIELDS = corpus(
    "|X: y|Expect: 100-continue|Connection: close|Connection: keep-alive|Upgrade: h2c|Cookie: a=b|TE: trailers"
    "|Content-Type: application/json|Accept: application/json|Accept-Encoding: gzip"
)
CHUNKED = b"Transfer-Encoding: chunked"
FRAMED = [
    (b"", b""),
    (b"Content-Length: 0", b""),
    (b"Content-Length: 5", b"hello"),
    (b"Content-Length: 6", b"hello!"),
    (b"Content-Length: 24", QUERY),
    (CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"),
    (CHUNKED, b"1;a=b\r\nh\r\n4\r\nello\r\n0\r\n\r\n"),
    (CHUNKED, b"18\r\n%s\r\n0\r\n\r\n" % QUERY),
    (CHUNKED, b"0\r\n\r\n"),
]
odd_framed = st.tuples(st.sampled_from(ambiguous_parts.FRAMINGS), st.sampled_from(ambiguous_parts.BODIES))
framed = st.integers(0, 9).flatmap(lambda chance: st.sampled_from(FRAMED) if chance else odd_framed)
FRAMES = [b"", frame(b"ping", masked=True), frame(b"x", masked=False), b"\x88\x80\0\0\0\0"]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A valid or invalid request."""
    if draw(st.integers(0, 9)) == 0:
        return handshake("/a/ws") + draw(st.sampled_from(FRAMES))
    parts = (
        mostly(METHODS, ambiguous_parts.METHODS), mostly(TARGETS, ODD_TARGETS), mostly(VERSIONS, ODD_VERSIONS),
    )  # fmt: skip
    first = b" ".join(draw(part) for part in parts)
    framing, body = draw(framed)
    more = draw(st.lists(mostly(FIELDS, ambiguous_parts.FIELDS), max_size=2))
    return b"\r\n".join(filter(None, [first, draw(mostly(HOST, ODD_HOSTS)), *more, framing])) + b"\r\n\r\n" + body


cuts = st.lists(st.integers(0, 1000), max_size=2)


def split(data: bytes, at: Sequence[int]) -> tuple[bytes, ...]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in at)})
    return tuple(data[start:end] for start, end in pairwise(places))


OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"Content-Length: "
IN_CHUNKS = OK + CHUNKED + b"\r\n\r\n"
SOUND = [
    LENGTH + b"2\r\n\r\nok",
    IN_CHUNKS + b"2\r\nok\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH + b"2\r\n\r\nok",
    OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
    LENGTH + b"32\r\n\r\nsk-proj-aB3dE5fG7hI9aB3dE5fG7hI9",
    IN_CHUNKS + b"10\r\nsk-proj-aB3dE5fG\r\n10\r\n7hI9aB3dE5fG7hI9\r\n0\r\n\r\n",
    SWITCH,
    SWITCH + frame(b"pong", masked=False),
    SWITCH + b"\x88\x00",
]
ODD = [
    *(answer for answer, _ in (*REJECTED.values(), *ACCEPTED.values()) if len(answer) < 2_000),
    LENGTH + b"2\r\n\r\nok" + LENGTH + b"6\r\n\r\nforged",
    LENGTH + b"5\r\n\r\nok",
    IN_CHUNKS + b"zz\r\nok\r\n",
    IN_CHUNKS + b"2\r\nokay\r\n0\r\n\r\n",
    OK + b"X",
    b"",
]


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """A valid or invalid response."""
    is_sound = draw(st.integers(0, 2)) > 0
    pieces = split(draw(st.sampled_from(SOUND if is_sound else ODD)), draw(cuts))
    return Answer(pieces=pieces, closes=not is_sound or draw(st.booleans()), early=draw(st.integers(0, 4)) == 0)


def packets(asked: Sequence[bytes], at: Sequence[int], *, tunnel: bool) -> tuple[bytes, ...]:
    data = b"".join(asked)
    return (TUNNEL, *split(data, at)) if tunnel else split(data.replace(b" /", b" http://allowed.test/"), at)


def is_allowed(target: str) -> bool:
    path = target.partition("?")[0]
    return path in {"/small", "/graphql"} or (path.startswith(("/a", "/echo")) and not path.startswith("/a/secret"))


@SHARED
@given(
    asked=st.lists(requests(), min_size=1, max_size=3),
    at=cuts,
    answered=st.lists(answers(), max_size=3),
    tunnel=st.booleans(),
    halves=st.booleans(),
)
@example(asked=[handshake("/a/ws")], at=[], answered=[Answer(pieces=(SWITCH, b"\x88\x00"))], tunnel=True, halves=False)
def test_each_request_that_a_server_reads_was_decided_and_is_recorded(
    policy: Policy, *, asked: list[bytes], at: list[int], answered: list[Answer], tunnel: bool, halves: bool
) -> None:
    seen = served(policy, packets(asked, at, tunnel=tunnel), tuple(answered), halves=halves)
    for raw in seen.by_connection:
        read = read_by_h11(raw)
        assert all(is_allowed(one.target) and set(one.hosts) == {NAME} for one in read)
        # A connection is used with one set of secrets.
        assert len({one.target.startswith("/echo") for one in read}) <= 1
    targets = [one.target.partition("?")[0] for raw in seen.by_connection for one in read_by_h11(raw)]
    assert {*targets} <= {record["path"] for record in seen.records}
    if targets and all(target.startswith("/echo") for target in targets):
        assert ECHOED.encode() not in seen.returned


def first_of(body: bytes, *more: bytes) -> tuple[bytes, ...]:
    """Return the packets of a tunnel with the beginning of a request of five bytes, and what follows."""
    head = get("/a", NAME, "Content-Length: 5", method="POST").replace(b"Connection: close\r\n", b"")
    return (TUNNEL, head + body, *more)


NEXT = get("/a", NAME)
EARLY = {
    "chunks": IN_CHUNKS + b"2\r\nok\r\n0\r\nX: y\r\n\r\n",
    "half a body": LENGTH + b"5\r\n\r\nok",
    "until the end": OK + b"\r\nok",
    "a length": LENGTH + b"2\r\n\r\nok",
}


@each("name", [*EARLY, *(f"{name}, then nothing" for name in EARLY if name != "until the end")])
def test_sends_nothing_of_a_request_after_its_whole_response(name: str, policy: Policy) -> None:
    name, _, stays = name.partition(", ")
    answer = Answer(pieces=(EARLY[name],), closes=not stays, early=True)
    seen = served(policy, first_of(b"he", b"l", b"lo" + NEXT), (answer,))
    assert (b"GET " in seen.forwarded) is (name not in {"half a body", "until the end"})
    if name in {"chunks", "a length"}:
        assert seen.by_connection[0].endswith(b"\r\n\r\nhe")
        assert seen.records[0]["bytes_out"] == 2


@each("answer", [EARLY["until the end"], OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"])
@each("is_split", [False, True])
def test_an_unfinished_request_gets_its_early_response_whole(answer: bytes, policy: Policy, *, is_split: bool) -> None:
    pieces = split(answer, range(1, len(answer))) if is_split else (answer,)
    seen = served(policy, first_of(b"he"), (Answer(pieces=pieces, closes=True, early=True),))
    assert (seen.closed, seen.returned.endswith(answer), len(seen.records)) == (True, True, 1)
    assert (seen.records[0]["status"], seen.records[0]["bytes_out"]) == (200, 2)
    assert seen.records[0]["reason"] == "allowed by policy.yaml:5"


@each("rest", [b"zz\r\n", b"1\r\n!\r0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"fffffffffffffffff\r\n"])
def test_forwards_no_request_after_a_body_that_turns_malformed_after_its_response(rest: bytes, policy: Policy) -> None:
    head = get("/small", NAME, "Transfer-Encoding: chunked", method="POST").replace(b"Connection: close\r\n", b"")
    answer = Answer(pieces=(EARLY["a length"],), early=True)
    seen = served(policy, (TUNNEL, head + b"5\r\nhello\r\n", rest + NEXT), (answer,))
    assert seen.returned.endswith(EARLY["a length"])
    assert b"GET " not in seen.forwarded
    assert [line["decision"] for line in seen.records] == ["allow", "deny"]


# What a client can send to ask for HTTP/2 without ALPN.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
H2C = get("/a", NAME, "Upgrade: h2c", "HTTP2-Settings: AAMAAABk").replace(b": close", b": Upgrade, HTTP2-Settings")
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


@each(
    "packets",
    [
        *((PREFACE,), (TUNNEL, PREFACE), (TUNNEL, PREFACE[:5], PREFACE[5:])),
        *((TUNNEL, H2C, PREFACE), (TUNNEL, H2C + PREFACE)),
        *(
            (TUNNEL, PREFACE.replace(b"2.0\r\n", b"1.1\r\nHost: allowed.test\r\n")),
            (TUNNEL, b"PRI /a HTTP/2.0\r\n\r\n"),
        ),
    ],
)
@each("accepts", [False, True])
def test_does_not_speak_http2_without_tls(packets: tuple[bytes, ...], policy: Policy, *, accepts: bool) -> None:
    seen = served(policy, packets, (Answer(pieces=(SWITCHED,)),) if accepts else ())
    assert seen.closed
    for trace in (b"PRI", b"h2c", b"HTTP2-Settings"):
        assert trace not in seen.forwarded


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with start_pair(tmp_path_factory.mktemp("pair"), POLICY) as started:
        yield started


def test_a_client_that_offers_both_versions_gets_what_the_policy_says(pair: Pair) -> None:
    for setting, chosen in (("lane", "http/1.1"), ("auto", "h2")):
        pair.proxy.reload(f"{POLICY}settings: {{http1: {setting}}}\n")
        with pair.proxy.tls(NAME, alpn=("h2", "http/1.1")) as stream:
            assert stream.selected_alpn_protocol() == chosen
            if chosen == "http/1.1":
                stream.sendall(get("/b", NAME).replace(b"Connection: close\r\n", b"") + get("/a", NAME))
                assert [read_answer(stream)[0], read_answer(stream)[0]] == [403, 200]
        with pair.proxy.tls(NAME, alpn=("h2",)) as stream:
            client = Http2Client(stream)
            assert [client.status(client.send(*fields(path, NAME))) for path in ("/b", "/a")] == ["403", "200"]


@pytest.mark.parametrize("fault", [b"\x16\x03\x01\0\4\2\0\0\0", b"\x16\x03\x01\0\0"])
def test_refuses_and_records_a_client_hello_that_cannot_be_read(pair: Pair, fault: bytes) -> None:
    pair.forget()
    with pair.proxy.tunnel(NAME) as connection:
        connection.sendall(fault)
        assert read_all(connection) == b""
    line = pair.proxy.line(event="raw_tunnel", decision="deny", host=NAME)
    assert line["reason"].startswith("malformed ClientHello: ")
    assert pair.server.connections == 0


def test_does_not_resume_tls_sessions_with_servers(pair: Pair) -> None:
    context = pair.server._context
    assert context is not None
    before = context.session_stats()["accept_good"]
    for _ in range(3):
        assert pair.proxy.ask(NAME, get("/a", NAME)).startswith(b"HTTP/1.1 200")
    # The server offered a session each time, and would have resumed it.
    assert (context.session_stats()["accept_good"] - before, context.session_stats()["hits"]) == (3, 0)
