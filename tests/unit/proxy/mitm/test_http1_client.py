from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.mitm.http1_client import HEAD_BYTES
from layer_harness import PLAIN, Http2Wire, Wire

if TYPE_CHECKING:
    from mitmproxy import http

    from agent_sandbox.proxy.tunnel import Tunnel

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def asked() -> Wire:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    return wire


@pytest.mark.parametrize("interim", [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_interim_answer_is_not_the_answer(interim: bytes) -> None:
    wire = asked()
    assert wire.server_sends(interim) == b""
    assert wire.server_sends(interim + OK) == OK


def test_an_answer_in_pieces_is_one_answer() -> None:
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


def test_interim_answers_without_end_are_a_failure() -> None:
    wire = asked()
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    got = wire.server_sends(interim * (HEAD_BYTES // len(interim)))
    assert got == b""
    assert b"the response head is larger than" in wire.server_sends(interim)
    assert wire.closed == [wire.servers[0]]


def test_interim_answers_are_counted_for_each_request_alone() -> None:
    wire = asked()
    interim = b"HTTP/1.1 100 Continue\r\nX: %s\r\n\r\n" % (b"x" * (HEAD_BYTES * 2 // 3))
    assert wire.server_sends(interim + OK) == OK
    wire.client_sends(GET)
    assert wire.server_sends(interim + OK) == OK + OK


@pytest.mark.parametrize("endless", [b"1;", b"1\r\na\r\n0\r\nX: "])
def test_a_chunks_size_and_trailers_have_an_end(endless: bytes) -> None:
    wire = asked()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + endless + b"x" * (HEAD_BYTES - 10))
    assert wire.closed == []
    wire.server_sends(b"x" * 100)
    assert wire.closed == [wire.servers[0], wire.client]


def test_what_comes_behind_an_answer_whose_request_goes_on_is_not_kept() -> None:
    wire = Wire(PLAIN, Streaming())
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\n")
    wire.server_sends(OK + b"x" * HEAD_BYTES)
    wire.server_sends(b"x" * HEAD_BYTES)
    assert held_by(wire) == 1
    assert wire.client_sends(b"ab") == OK
    assert wire.closed == [wire.servers[0]]


def test_a_switch_of_protocols_is_no_interim_answer() -> None:
    assert asked().server_sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").startswith(b"HTTP/1.1 101")


def test_trailers_end_the_answer_and_are_dropped() -> None:
    wire = asked()
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = wire.server_sends(chunked + b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n")
    assert got.endswith(b"2\r\nok\r\n0\r\n\r\n")
    wire.client_sends(GET)
    assert wire.server_sends(OK).endswith(OK)


def test_chunks_that_came_together_go_on_as_one() -> None:
    wire = Wire(PLAIN, Streaming())
    wire.client_sends(GET)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert wire.server_sends(head + b"1\r\na\r\n1\r\nb\r\n3\r\ncd") == head + b"4\r\nabcd\r\n"
    assert wire.server_sends(b"e\r\n0\r\n\r\n").endswith(b"4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n")


def test_a_head_without_end_is_a_failure() -> None:
    wire = asked()
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nX: " + b"y" * HEAD_BYTES)
    assert got.startswith(b"HTTP/1.1 502 Bad Gateway")
    assert b"the response head is larger than 262144 bytes" in got


def test_a_head_without_end_that_nobody_asked_for_closes_the_server() -> None:
    wire = asked()
    wire.server_sends(OK)
    wire.server_sends(b"x" * (HEAD_BYTES + 1))
    assert wire.to_client == OK
    assert wire.closed == [wire.servers[0]]


def test_a_server_that_leaves_before_it_answers_is_a_failure() -> None:
    wire = asked()
    wire.closes(wire.servers[0])
    assert wire.to_client.startswith(b"HTTP/1.1 502 Bad Gateway")


def test_a_body_without_a_length_is_framed_and_trailers_end_it() -> None:
    wire = Http2Wire(Streaming())
    wire.request(body=b"GET / HTTP/1.1", trailers=True)
    head, _, body = wire.to_server.partition(b"\r\n\r\n")
    assert head == b"POST /x HTTP/1.1\r\nHost: a.test\r\ntransfer-encoding: chunked"
    assert body == b"e\r\nGET / HTTP/1.1\r\n0\r\n\r\n"


def test_a_body_that_has_a_length_keeps_it() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nok")
    assert wire.to_server == b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nok"


class Streaming:
    """Holds no body."""

    @hook
    def requestheaders(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Do not hold it."""
        flow.request.stream = True

    @hook
    def responseheaders(self, flow: http.HTTPFlow, _: Tunnel) -> None:
        """Nor that of the answer."""
        if flow.response:
            flow.response.stream = True


def test_a_request_that_its_client_gave_up_is_no_whole_one_to_the_server() -> None:
    wire = Wire(PLAIN, Streaming())
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nhalf")
    wire.closes(wire.client)
    assert wire.reset == wire.servers


@pytest.mark.parametrize("reset", [True, False])
def test_an_answer_that_ends_with_its_connection_is_whole_unless_that_was_reset(*, reset: bool) -> None:
    wire = Wire(PLAIN, Streaming())
    wire.client_sends(GET)
    wire.server_sends(b"HTTP/1.1 200 OK\r\n\r\nas much as")
    wire.servers[-1].error = "reset" if reset else None
    wire.closes(wire.servers[-1])
    assert wire.client in wire.closed
    assert (wire.cut == [wire.client]) is reset


def held_by(wire: Wire) -> int:
    client = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    return len(client.buf)
