from __future__ import annotations

import json

import pytest
from mitmproxy.proxy import events

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from layer_harness import PLAIN, Deny, Malformed, Wire

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_request_goes_on_as_it_is() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    assert wire.to_server == GET
    assert wire.server_sends(OK) == OK


def test_a_request_that_comes_in_pieces_is_one_request() -> None:
    wire = Wire(PLAIN)
    for at in range(len(GET)):
        wire.client_sends(GET[at : at + 1])
    assert wire.to_server == GET
    assert len(wire.wakeups) == 1


def test_a_request_to_the_proxy_goes_to_the_host_it_names() -> None:
    wire = Wire(Tunnel(client="", carries=Carries.PROXY))
    wire.client_sends(b"GET http://b.test:81/x HTTP/1.1\r\nHost: b.test:81\r\n\r\n")
    assert wire.servers[0].address == ("b.test", 81)
    assert wire.to_server == b"GET /x HTTP/1.1\r\nHost: b.test:81\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"Content-Length: 5\r\n\r\nhello", b"Content-Length: 5\r\n\r\nhello"),
        (b"Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n", b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    ],
)
def test_bodies_are_read_by_their_framing(body: bytes, wanted: bytes) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\n" + body)
    assert wire.to_server.endswith(wanted)


def test_a_bad_head_is_answered_logged_and_the_end() -> None:
    log = Malformed()
    wire = Wire(PLAIN, log)
    answer = wire.client_sends(b"GET /x HTTP/1.1\nHost: a.test\n\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert json.loads(body)["reason"] == "a bare CR or LF in the request head"
    assert log.reasons == ["a bare CR or LF in the request head"]
    assert wire.closed == [wire.client]
    assert wire.servers == []


def test_a_head_that_does_not_end_is_not_waited_for() -> None:
    log = Malformed()
    wire = Wire(PLAIN, log, limits=Limits(head_seconds=3))
    wire.client_sends(b"GET /x HTT")
    assert wire.wakeups[0].delay == 3
    wire.feed(events.Wakeup(wire.wakeups[0]))
    assert wire.to_client.startswith(b"HTTP/1.1 408 Request Timeout")
    assert log.reasons == ["the request head did not arrive in time"]


def test_a_clock_that_strikes_late_means_nothing() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET[:5])
    wire.client_sends(GET[5:])
    wire.feed(events.Wakeup(wire.wakeups[0]))
    assert wire.to_client == b""


def test_a_client_that_leaves_between_requests_is_let_go() -> None:
    wire = Wire(PLAIN)
    wire.closes(wire.client)
    assert (wire.to_client, wire.servers) == (b"", [])


def test_a_client_that_has_a_part_of_an_answer_is_not_told_goodbye() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    wire.server_sends(OK[:-1])
    assert wire.cut == []
    wire.closes(wire.servers[-1])
    assert (wire.cut, wire.closed) == ([wire.client], [wire.servers[-1], wire.client])


@pytest.mark.parametrize(("length", "reset"), [(b"Content-Length: 9\r\n", False), (b"", True)])
def test_a_part_whose_end_would_look_like_one_ends_in_a_reset(length: bytes, *, reset: bool) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    wire.server_sends(b"HTTP/1.1 200 OK\r\n" + length + b"\r\npart")
    wire.servers[-1].error = "the server reset the connection"
    wire.closes(wire.servers[-1])
    assert (wire.cut, wire.reset == [wire.client]) == ([wire.client], reset)


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("pieces", [[CHUNKED + b"no chunk\r\n" + GET], [CHUNKED, b"no chunk\r\n" + GET, GET]])
def test_behind_a_body_that_cannot_be_read_no_request_begins(pieces: list[bytes]) -> None:
    log = Malformed()
    wire = Wire(PLAIN, log, Deny())
    for piece in pieces:
        wire.client_sends(piece)
    assert wire.to_client.count(b"HTTP/1.1 ") == 1
    assert wire.to_client.startswith(b"HTTP/1.1 403")
    assert wire.closed == [wire.client]
    # Where the answer was out already, the line of the request is written.
    assert log.reasons == ["malformed body: a malformed chunk size line"] * (len(pieces) > 1)


def test_a_client_that_leaves_within_a_chunked_body_is_gone() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(CHUNKED + b"5\r\nhel")
    wire.closes(wire.client)
    assert (wire.to_client, wire.reset) == (b"", wire.servers)


ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"
CLOSING = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("answer", [ENDLESS, CLOSING])
@pytest.mark.parametrize("rest", [b"0\r\n\r\n" + GET, b"no chunk\r\n" + GET, None])
def test_the_last_response_ends_before_its_request_does(answer: bytes, rest: bytes | None) -> None:
    log = Malformed()
    wire = Wire(PLAIN, log)
    wire.client_sends(CHUNKED + b"5\r\nhello\r\n")
    wire.server_sends(answer)
    wire.closes(wire.servers[-1])
    assert (wire.to_client, wire.finished, wire.client in wire.closed) == (answer, [wire.client], False)
    if rest is None:
        wire.closes(wire.client)
    else:
        wire.client_sends(rest)
    assert (wire.to_client, len(wire.servers), wire.closed[-1]) == (answer, 1, wire.client)
    assert log.reasons == (["malformed body: a malformed chunk size line"] if rest and b"no chunk" in rest else [])
    assert wire.faults == []


def test_each_of_the_requests_in_one_packet_has_its_turn() -> None:
    assert Wire(PLAIN, Deny()).client_sends(GET * 3).count(b"HTTP/1.1 403") == 3
    wire = Wire(PLAIN, Deny())
    wire.hasty = False
    for answers, ask in enumerate((GET * 3, b"", b""), start=1):
        wire.client_sends(ask)
        assert wire.to_client.count(b"HTTP/1.1 403") == answers


def test_a_turn_that_others_took_is_over() -> None:
    wire = Wire(PLAIN)
    wire.hasty = False
    wire.client_sends(GET * 3)
    wire.server_sends(OK)
    wire.client_sends(b"")
    wire.feed(events.Wakeup(wire.wakeups.pop()))
    assert (wire.to_server, wire.to_client) == (GET * 2, OK)


def test_what_came_before_the_switch_to_a_websocket_goes_through_it() -> None:
    upgrade = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    wire = Wire(PLAIN)
    wire.client_sends(GET[:-4] + upgrade + b"\x82\x85" + bytes(4) + b"early")
    wire.server_sends(b"HTTP/1.1 101 Switching Protocols" + upgrade)
    assert wire.to_server.partition(b"\r\n\r\n")[2].startswith(b"\x82\x85")  # masked anew
