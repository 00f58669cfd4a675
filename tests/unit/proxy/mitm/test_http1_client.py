from __future__ import annotations

import json

import pytest

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.flows import FlowHooks
from layer_harness import PLAIN, Http2Wire, Wire
from response_shapes import ACCEPTED, REJECTED
from table_tests import each

HEAD_BYTES = Limits().response_head_bytes
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def asked() -> Wire:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    return wire


@pytest.mark.parametrize("interim", [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_does_not_forward_interim_responses(interim: bytes) -> None:
    wire = asked()
    assert wire.server_sends(interim) == b""
    assert wire.server_sends(interim + OK) == OK


def test_reads_a_response_that_arrives_byte_by_byte() -> None:
    wire = asked()
    for at in range(len(OK)):
        wire.server_sends(OK[at : at + 1])
    assert wire.to_client == OK


@pytest.mark.parametrize(
    "said",
    [
        b"hello",
        b"\r\nHTTP/1.1 200 OK\r\n",
        b"\x15\x03\x01",
        b"HTTP/2.0 200",
        b"HTTP/1.1 1000 ",
        b"HTTP/1.1 -20",
        b"HTTP/1.1 099 x",
    ],
)
def test_response_that_is_not_http1_fails_immediately(said: bytes) -> None:
    wire = asked()
    assert b"502 Bad Gateway" in wire.server_sends(said)
    assert (b"is not HTTP/1" in wire.to_client, wire.closed) == (True, [wire.servers[0]])


def sent_in(pieces: list[bytes]) -> Wire:
    """Return what comes of a response that arrives like this, after which the server leaves."""
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    for piece in pieces:
        wire.server_sends(piece)
    if wire.servers[0] not in wire.closed:
        wire.closes(wire.servers[0])
    return wire


@each("name", REJECTED)
def test_malformed_response_head_is_a_502_that_quotes_nothing(name: str) -> None:
    data, problem = REJECTED[name]
    wire = sent_in([data])
    page = json.loads(wire.to_client.partition(b"\r\n\r\n")[2])
    assert page["reason"] == f"malformed response from the server: {problem}"
    assert wire.to_client.startswith(b"HTTP/1.1 502 ")
    assert (b"bad-head" in wire.to_client, b"orged" in wire.to_client) == (False, False)
    assert wire.closed == [wire.servers[0]]


@each("name", ACCEPTED)
def test_response_of_a_real_server_is_forwarded(name: str) -> None:
    data, wanted = ACCEPTED[name]
    assert sent_in([data]).to_client == wanted


@each("name", [name for name, (data, _) in (REJECTED | ACCEPTED).items() if len(data) < 500])
def test_response_is_read_the_same_if_each_byte_comes_alone(name: str) -> None:
    data, _ = (REJECTED | ACCEPTED)[name]
    whole, apart = sent_in([data]), sent_in([bytes([byte]) for byte in data])
    if name in REJECTED:
        assert apart.to_client.startswith(b"HTTP/1.1 502 ")
        assert (b"bad-head" in apart.to_client, b"orged" in apart.to_client) == (False, False)
        assert apart.closed == [apart.servers[0]]
    else:
        assert body_of(apart.to_client) == body_of(whole.to_client)


def body_of(response: bytes) -> tuple[bytes, bytes]:
    """Return a response with its chunks joined: how they are split depends on the packets."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = body.split(b"\r\n")
    return head, b"".join(lines[1::2]) if b"chunked" in head.lower() else body


@pytest.mark.parametrize("behind", [b"", b"x", OK, b"0\r\n\r\n", b"\r\n"])
@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_bytes_after_a_response_without_a_body_end_the_connection(status: bytes, behind: bytes) -> None:
    wire = asked()
    response = b"HTTP/1.1 " + status + b"\r\n\r\n"
    assert wire.server_sends(response + behind) == response
    assert wire.closed == ([wire.servers[0]] if behind else [])


def test_response_to_head_has_no_body_whatever_it_declares() -> None:
    for declared in (b"Content-Length: 9", b"Transfer-Encoding: chunked"):
        wire = Wire(PLAIN)
        wire.client_sends(GET.replace(b"GET", b"HEAD"))
        response = b"HTTP/1.1 200 OK\r\n" + declared + b"\r\n\r\n"
        assert wire.server_sends(response) == response
        wire.client_sends(GET)
        assert wire.server_sends(OK) == response + OK
        assert wire.closed == []


def test_response_to_head_with_ambiguous_framing_is_a_502() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET.replace(b"GET", b"HEAD"))
    both = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert wire.server_sends(both).startswith(b"HTTP/1.1 502 ")


@pytest.mark.parametrize(
    "begun", [b"H", b"HTTP/1.1 200 OK\r\nX-Mark: bad-head\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP"]
)
def test_answers_502_if_the_server_closes_within_the_response_head(begun: bytes) -> None:
    wire = asked()
    wire.server_sends(begun)
    wire.closes(wire.servers[0])
    page = json.loads(wire.to_client.partition(b"\r\n\r\n")[2])
    assert page["reason"] == "the server closed the connection before the end of its response head"


@pytest.mark.parametrize("early", [OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"x"])
def test_drops_an_unsolicited_response_and_closes_the_server(early: bytes) -> None:
    wire = asked()
    wire.server_sends(OK)
    wire.server_sends(early)
    assert (wire.to_client, wire.closed) == (OK, [wire.servers[0]])
    wire.client_sends(GET)
    assert len(wire.servers) == 2
    assert wire.server_sends(OK) == OK + OK


def test_rejects_interim_responses_that_exceed_the_head_limit() -> None:
    wire = asked()
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    got = wire.server_sends(interim * (HEAD_BYTES // len(interim)))
    assert got == b""
    assert b"malformed response from the server: its head is larger than" in wire.server_sends(interim)
    assert wire.closed == [wire.servers[0]]


def test_counts_interim_responses_for_each_request_separately() -> None:
    wire = asked()
    interim = b"HTTP/1.1 100 Continue\r\nX: %s\r\n\r\n" % (b"x" * (HEAD_BYTES * 2 // 3))
    assert wire.server_sends(interim + OK) == OK
    wire.client_sends(GET)
    assert wire.server_sends(interim + OK) == OK + OK


@pytest.mark.parametrize("endless", [b"1;", b"1\r\na\r\n0\r\nX: "])
def test_limits_the_length_of_chunk_size_lines_and_trailers(endless: bytes) -> None:
    wire = asked()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + endless + b"x" * (HEAD_BYTES - 10))
    assert wire.closed == []
    wire.server_sends(b"x" * 100)
    assert wire.closed == [wire.servers[0], wire.client]


def test_does_not_buffer_bytes_after_an_early_response() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\n")
    assert wire.server_sends(OK + b"x" * HEAD_BYTES) == OK
    assert (held_by(wire), wire.reset) == (0, wire.servers)
    assert wire.client_sends(b"ab") == OK
    assert wire.closed == [wire.servers[0]]


def test_forwards_101_switching_protocols() -> None:
    assert asked().server_sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").startswith(b"HTTP/1.1 101")


def test_drops_trailers_of_a_response() -> None:
    wire = asked()
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = wire.server_sends(chunked + b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n")
    assert got.endswith(b"2\r\nok\r\n0\r\n\r\n")
    wire.client_sends(GET)
    assert wire.server_sends(OK).endswith(OK)


def test_forwards_chunks_that_arrive_together_as_one_chunk() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert wire.server_sends(head + b"1\r\na\r\n1\r\nb\r\n3\r\ncd") == head + b"4\r\nabcd\r\n"
    assert wire.server_sends(b"e\r\n0\r\n\r\n").endswith(b"4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n")


def test_answers_502_to_a_response_head_that_exceeds_the_limit() -> None:
    wire = asked()
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nX: " + b"y" * HEAD_BYTES)
    assert got.startswith(b"HTTP/1.1 502 Bad Gateway")
    assert b"malformed response from the server: its head is larger than 262144 bytes" in got


def test_closes_a_server_that_sends_an_unsolicited_endless_head() -> None:
    wire = asked()
    wire.server_sends(OK)
    wire.server_sends(b"x" * (HEAD_BYTES + 1))
    assert wire.to_client == OK
    assert wire.closed == [wire.servers[0]]


def test_answers_502_if_the_server_closes_before_its_response() -> None:
    wire = asked()
    wire.closes(wire.servers[0])
    assert wire.to_client.startswith(b"HTTP/1.1 502 Bad Gateway")


def test_sends_a_body_without_a_length_in_chunks_and_ends_it_at_the_trailers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowHooks, "request", lambda *_: None)  # which would drop them before
    wire = Http2Wire()
    wire.request(body=b"GET / HTTP/1.1", trailers=True)
    head, _, body = wire.to_server.partition(b"\r\n\r\n")
    assert head == b"POST /x HTTP/1.1\r\nHost: a.test\r\ntransfer-encoding: chunked"
    assert body == b"e\r\nGET / HTTP/1.1\r\n0\r\n\r\n"


def test_forwards_a_body_with_its_content_length() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nok")
    assert wire.to_server == b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nok"


def test_resets_the_server_if_the_client_leaves_within_its_request_body() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nhalf")
    wire.closes(wire.client)
    assert wire.reset == wire.servers


@pytest.mark.parametrize("reset", [True, False])
def test_cuts_a_response_without_a_length_only_if_the_server_resets_the_connection(*, reset: bool) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    wire.server_sends(b"HTTP/1.1 200 OK\r\n\r\nas much as")
    wire.servers[-1].error = "reset" if reset else None
    wire.closes(wire.servers[-1])
    assert wire.client in wire.closed
    assert (wire.cut == [wire.client]) is reset


def held_by(wire: Wire) -> int:
    client = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    return len(client.buf)
