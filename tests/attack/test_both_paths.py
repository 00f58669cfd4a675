"""The same bytes through both HTTP/1.1 paths must give the same to servers, clients and the audit log.

Both run in this process, a few milliseconds per example. HYPOTHESIS_PROFILE=deep runs more. `test_lane.py` does the
same over TLS, with whole proxies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import ambiguous_parts
from both_paths import POLICY, QUERY, SWITCH, TUNNEL, Answer, BothPaths, Seen
from independent_parsers import read_by_h11
from proxy_stand import get
from response_shapes import ACCEPTED, REJECTED
from table_tests import each
from websocket_client import frame, handshake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True, slots=True)
class Known:
    """An intended difference: when it applies, which fields of `Seen` may differ, and why."""

    holds: Callable[[Seen, Seen], bool]
    fields: frozenset[str]
    why: str


def ends(seen: Seen) -> list[tuple[object, ...]]:
    """Return event, decision and reason of each record, without the text of an abort."""
    return [(one["event"], one["decision"], one["reason"].partition("; aborted: ")[0]) for one in seen.records]


def are_websockets(lane: Seen, other: Seen) -> bool:
    return all(any(one["event"] == "websocket" for one in seen.records) for seen in (lane, other)) and (
        ends(lane) == ends(other)
        and (lane.returned.startswith(other.returned) or other.returned.startswith(lane.returned))
    )


def is_broken_first_body(lane: Seen, other: Seen) -> bool:
    last = len(other.records) - 1
    if not 0 <= last < len(lane.records) or lane.records[:last] != other.records[:last]:
        return False
    refused, cut = lane.records[last], other.records[last]
    return refused["status"] == 502 and str(cut["reason"]).endswith(f"; aborted: {refused['reason']}")


def is_malformed_after_denial(lane: Seen, other: Seen) -> bool:
    if len(lane.records) < 2:
        return False
    *before, denied, malformed = lane.records
    return [*before, denied] == other.records and denied["decision"] == "deny" and malformed["event"] == "malformed"


def has_left_within_its_body(lane: Seen, other: Seen) -> bool:
    left = "; aborted: Client disconnected."
    told = "; aborted: HTTP/1 protocol error: "
    same = [
        one["reason"].partition(told)[0] + left if told in one["reason"] else one["reason"] for one in other.records
    ]
    return same == [one["reason"] for one in lane.records]


KNOWN = (
    Known(
        are_websockets,
        frozenset({"returned", "records", "closed", "forwarded"}),
        "the two directions of a WebSocket are independent: which frame of one passes before an error of the other ends"
        " both is chance. After the server's Close, the lane waits for that of the client",
    ),
    Known(
        is_broken_first_body,
        frozenset({"returned", "records", "closed", "forwarded"}),
        "if the bytes that arrive with a head show that its body is malformed, the lane has not sent the head yet: the"
        " client gets a 502, and may send another request",
    ),
    Known(
        is_malformed_after_denial,
        frozenset({"records"}),
        "after a denial, the lane always records a malformed body; mitmproxy's path only if it arrived later",
    ),
    Known(
        has_left_within_its_body,
        frozenset({"records"}),
        "of a client that leaves within its request, mitmproxy's path quotes h11",
    ),
)


def unexplained(lane: Seen, other: Seen) -> set[str]:
    """Return the names of the fields that differ although nothing in `KNOWN` explains it."""
    differing = {
        one.name for one in fields(Seen) if one.compare and getattr(lane, one.name) != getattr(other, one.name)
    }
    return differing.difference(*(known.fields for known in KNOWN if differing and known.holds(lane, other)))


def assert_same(lane: Seen, other: Seen) -> None:
    assert not unexplained(lane, other), (lane, other)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> BothPaths:
    return BothPaths(tmp_path_factory.mktemp("both"), POLICY)


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


@SHARED
@given(
    asked=st.lists(requests(), min_size=1, max_size=3),
    at=cuts,
    answered=st.lists(answers(), max_size=3),
    tunnel=st.booleans(),
    halves=st.booleans(),
)
@example(asked=[handshake("/a/ws")], at=[], answered=[Answer(pieces=(SWITCH, b"\x88\x00"))], tunnel=True, halves=False)
def test_both_paths_treat_a_connection_the_same(
    both: BothPaths, *, asked: list[bytes], at: list[int], answered: list[Answer], tunnel: bool, halves: bool
) -> None:
    lane, other = both.seen(packets(asked, at, tunnel=tunnel), tuple(answered), halves=halves)
    assert_same(lane, other)
    for connection in (*lane.by_connection, *other.by_connection):
        assert (
            len({one.target.startswith("/echo") for one in read_by_h11(connection)}) <= 1
        )  # a connection is used with one set of secrets


NAME = "allowed.test"
REQUESTS = {
    "allowed": get("/a", NAME),
    "two in a row": get("/a", NAME).replace(b"Connection: close\r\n", b"") + get("/a/b", NAME),
    "denied": get("/b", NAME),
    "head": get("/a", NAME, method="HEAD"),
    "HTTP/1.0": get("/a", NAME).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a body": get("/a", NAME, "Content-Length: 5", method="POST") + b"hello",
    "chunks": get("/a", NAME, "Transfer-Encoding: chunked", method="POST") + b"5;x=y\r\nhello\r\n0\r\n\r\n",
    "expect": get("/a", NAME, "Content-Length: 5", "Expect: 100-continue", method="POST") + b"hello",
    "too large": get("/small", NAME, "Content-Length: 6", method="POST") + b"hello!",
    "too large chunks": get("/small", NAME, "Transfer-Encoding: chunked", method="POST") + b"6\r\nhello!\r\n0\r\n\r\n",
    "bad chunks": get("/a", NAME, "Transfer-Encoding: chunked", method="POST") + b"zz\r\n",
    "another host": get("/a", "evil.test"),
    "bare LF": b"GET /a HTTP/1.1\nHost: allowed.test\n\n",
    "two lengths": get("/a", NAME, "Content-Length: 5", "Content-Length: 6", method="POST") + b"hello!",
    "both framings": get("/a", NAME, "Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
    "a full URL": get("https://allowed.test/a", NAME),
    "CONNECT": get("allowed.test:443", NAME, method="CONNECT"),
    "hop-by-hop": get("/a", NAME, "Keep-Alive: 5", "X-Forwarded-Host: evil.test", "Upgrade: h2c"),
    "another upgrade": get("/a", NAME, "Upgrade: other"),
    "encoded slash": get("/a%2f..%2fb", NAME),
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


EARLY = {
    "chunks": ANSWERS["chunks"],
    "half a body": ANSWERS["half a body"],
    "until the end": ANSWERS["until the end"],
    "a length": LENGTH + b"2\r\n\r\nok",
}


@each("name", [*EARLY, *(f"{name}, then nothing" for name in EARLY if name != "until the end")])
def test_both_paths_treat_a_response_before_the_end_of_its_request_the_same(name: str, both: BothPaths) -> None:
    name, _, stays = name.partition(", ")
    head = REQUESTS["a body"].replace(b"Connection: close\r\n", b"")[:-5]
    answer = Answer(pieces=(EARLY[name],), closes=not stays, early=True)
    lane, other = both.seen((TUNNEL, head + b"he", b"l", b"lo" + REQUESTS["allowed"]), (answer,))
    assert_same(lane, other)
    assert (b"GET " in lane.forwarded) is (name not in {"half a body", "until the end"})
    if name in {"chunks", "a length"}:
        assert lane.by_connection[0].endswith(b"\r\n\r\nhe")
        assert lane.records[0]["bytes_out"] == 2


@each("answer", [EARLY["until the end"], OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"])
@each("is_split", [False, True])
def test_an_unfinished_request_gets_its_early_response_whole(answer: bytes, both: BothPaths, *, is_split: bool) -> None:
    head = REQUESTS["a body"].replace(b"Connection: close\r\n", b"")[:-5]
    pieces = split(answer, range(1, len(answer))) if is_split else (answer,)
    lane, other = both.seen((TUNNEL, head + b"he"), (Answer(pieces=pieces, closes=True, early=True),))
    assert_same(lane, other)
    assert (lane.closed, lane.returned.endswith(answer), len(lane.records)) == (True, True, 1)
    assert (lane.records[0]["status"], lane.records[0]["bytes_out"]) == (200, 2)
    assert lane.records[0]["reason"] == "allowed by policy.yaml:5"


@each(
    "rest",
    [
        *(b"zz\r\n", b"1\r\n!\r0\r\n\r\n", b"0\r\nX: y\r\n\r\n"),
        b"fffffffffffffffff\r\n",
    ],
)
def test_forwards_no_request_after_a_body_that_turns_malformed_after_its_response(rest: bytes, both: BothPaths) -> None:
    head = get("/small", NAME, "Transfer-Encoding: chunked", method="POST").replace(b"Connection: close\r\n", b"")
    answer = Answer(pieces=(EARLY["a length"],), early=True)
    lane, other = both.seen((TUNNEL, head + b"5\r\nhello\r\n", rest + REQUESTS["allowed"]), (answer,))
    assert_same(lane, other)
    assert lane.returned.endswith(EARLY["a length"])
    assert b"GET " not in lane.forwarded
    assert [line["decision"] for line in lane.records] == ["allow", "deny"]


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
def test_no_path_speaks_http2_without_tls(packets: tuple[bytes, ...], both: BothPaths, *, accepts: bool) -> None:
    lane, other = both.seen(packets, (Answer(pieces=(SWITCHED,)),) if accepts else ())
    assert_same(lane, other)
    assert lane.closed
    for trace in (b"PRI", b"h2c", b"HTTP2-Settings"):
        assert trace not in lane.forwarded


@each("name", REQUESTS)
def test_both_paths_treat_a_request_the_same(name: str, both: BothPaths) -> None:
    assert_same(*both.seen((TUNNEL, REQUESTS[name])))


@each("name", ANSWERS)
def test_both_paths_treat_a_response_the_same(name: str, both: BothPaths) -> None:
    ask = REQUESTS["allowed"]
    assert_same(*both.seen((TUNNEL, ask), (Answer(pieces=(ANSWERS[name],), closes=True),)))
