from __future__ import annotations

import json

import pytest
from mitmproxy.proxy import events

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from layer_harness import PLAIN, Deny, Malformed, Wire

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_forwards_a_request_unchanged() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    assert wire.to_server == GET
    assert wire.server_sends(OK) == OK


def test_reads_a_request_that_arrives_byte_by_byte() -> None:
    wire = Wire(PLAIN)
    for at in range(len(GET)):
        wire.client_sends(GET[at : at + 1])
    assert wire.to_server == GET
    assert len(wire.wakeups) == 1


def test_forwards_an_explicit_proxy_request_to_the_host_that_it_names() -> None:
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
def test_reads_bodies_with_a_content_length_and_chunked_bodies(body: bytes, wanted: bytes) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"POST /x HTTP/1.1\r\nHost: a.test\r\n" + body)
    assert wire.to_server.endswith(wanted)


def test_answers_and_logs_a_malformed_head_and_closes_the_connection() -> None:
    log = Malformed()
    wire = Wire(PLAIN, log)
    answer = wire.client_sends(b"GET /x HTTP/1.1\nHost: a.test\n\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert json.loads(body)["reason"] == "a bare CR or LF in the request head"
    assert log.reasons == ["a bare CR or LF in the request head"]
    assert wire.closed == [wire.client]
    assert wire.servers == []


def test_answers_408_if_the_request_head_does_not_arrive_in_time() -> None:
    log = Malformed()
    wire = Wire(PLAIN, log, limits=Limits(head_seconds=3))
    wire.client_sends(b"GET /x HTT")
    assert wire.wakeups[0].delay == 3
    wire.feed(events.Wakeup(wire.wakeups[0]))
    assert wire.to_client.startswith(b"HTTP/1.1 408 Request Timeout")
    assert log.reasons == ["the request head did not arrive in time"]


def test_ignores_the_timer_of_a_head_that_has_arrived() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET[:5])
    wire.client_sends(GET[5:])
    wire.feed(events.Wakeup(wire.wakeups[0]))
    assert wire.to_client == b""


def test_sends_nothing_to_a_client_that_leaves_between_requests() -> None:
    wire = Wire(PLAIN)
    wire.closes(wire.client)
    assert (wire.to_client, wire.servers) == (b"", [])


def test_cuts_the_client_connection_if_the_server_closes_within_a_response() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    wire.server_sends(OK[:-1])
    assert wire.cut == []
    wire.closes(wire.servers[-1])
    assert (wire.cut, wire.closed) == ([wire.client], [wire.servers[-1], wire.client])


@pytest.mark.parametrize(("length", "reset"), [(b"Content-Length: 9\r\n", False), (b"", True)])
def test_resets_the_client_after_a_cut_response_without_a_length(length: bytes, *, reset: bool) -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    wire.server_sends(b"HTTP/1.1 200 OK\r\n" + length + b"\r\npart")
    wire.servers[-1].error = "the server reset the connection"
    wire.closes(wire.servers[-1])
    assert (wire.cut, wire.reset == [wire.client]) == ([wire.client], reset)


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("pieces", [[CHUNKED + b"no chunk\r\n" + GET], [CHUNKED, b"no chunk\r\n" + GET, GET]])
def test_reads_no_request_after_a_malformed_body(pieces: list[bytes]) -> None:
    log = Malformed()
    wire = Wire(PLAIN, log, Deny())
    for piece in pieces:
        wire.client_sends(piece)
    assert wire.to_client.count(b"HTTP/1.1 ") == 1
    assert wire.to_client.startswith(b"HTTP/1.1 403")
    assert wire.closed == [wire.client]
    # Where the answer was out already, the line of the request is written.
    assert log.reasons == ["malformed body: a malformed chunk size line"] * (len(pieces) > 1)


def test_resets_the_server_if_the_client_leaves_within_a_chunked_body() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(CHUNKED + b"5\r\nhel")
    wire.closes(wire.client)
    assert (wire.to_client, wire.reset) == (b"", wire.servers)


ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"
CLOSING = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("answer", [ENDLESS, CLOSING])
@pytest.mark.parametrize("rest", [b"0\r\n\r\n" + GET, b"no chunk\r\n" + GET, None])
def test_closes_after_the_request_body_if_the_last_response_ends_first(answer: bytes, rest: bytes | None) -> None:
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


def test_serves_pipelined_requests_of_one_packet_in_turn() -> None:
    assert Wire(PLAIN, Deny()).client_sends(GET * 3).count(b"HTTP/1.1 403") == 3
    wire = Wire(PLAIN, Deny())
    wire.hasty = False
    for answers, ask in enumerate((GET * 3, b"", b""), start=1):
        wire.client_sends(ask)
        assert wire.to_client.count(b"HTTP/1.1 403") == answers


def test_ignores_the_wakeup_of_a_turn_that_is_already_over() -> None:
    wire = Wire(PLAIN)
    wire.hasty = False
    wire.client_sends(GET * 3)
    wire.server_sends(OK)
    wire.client_sends(b"")
    wire.feed(events.Wakeup(wire.wakeups.pop()))
    assert (wire.to_server, wire.to_client) == (GET * 2, OK)


def test_forwards_websocket_frames_that_arrived_before_the_switch() -> None:
    upgrade = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    wire = Wire(PLAIN)
    wire.client_sends(GET[:-4] + upgrade + b"\x82\x85" + bytes(4) + b"early")
    wire.server_sends(b"HTTP/1.1 101 Switching Protocols" + upgrade)
    assert wire.to_server.partition(b"\r\n\r\n")[2].startswith(b"\x82\x85")  # masked anew
