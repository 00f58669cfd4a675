import json

import pytest

from agent_sandbox.proxy.mitm.held_fields import HeldFields
from agent_sandbox.proxy.mitm.http2_client import StrictHttp2Client
from agent_sandbox.proxy.wire.hpack import BoundedEncoder
from layer_harness import Wire, goaway, requests_at, server_end

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
STATUS_200 = b"\0\0\1\1%c\0\0\0\1\x88"  # HEADERS with `:status: 200`, which counts as 10 bytes


@pytest.fixture
def wire() -> Wire:
    """A request to a server that speaks HTTP/2."""
    wire = Wire()
    wire.server_alpn = b"h2"
    wire.ask()
    return wire


def test_ignores_a_server_that_asks_for_a_larger_header_table(wire: Wire) -> None:
    end = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    assert (type(end), type(end.h2_conn.encoder)) == (StrictHttp2Client, BoundedEncoder)
    wire.server_sends(b"\0\0\6\4\0\0\0\0\0" + b"\0\1\x7f\xff\xff\xff")
    assert end.h2_conn.encoder.header_table_size == 4096


def test_the_reason_for_a_closed_connection_does_not_quote_the_server(wire: Wire) -> None:
    block = b"\x08\x08hunter22"  # the value of `:status`
    wire.server_sends(SETTINGS + b"\0\0%c\1\4\0\0\0\1" % len(block) + block)
    assert b"hunter22" not in wire.got()
    assert b"Invalid HTTP/2 response headers" in wire.got()


def held_by(wire: Wire, *, limit: int) -> HeldFields:
    """Return what the connection to the wire's server holds, with another limit."""
    end = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    end._held_fields = HeldFields(limit=limit)
    held: HeldFields = end._held_fields
    return held


def test_a_server_that_sends_too_many_header_fields_is_disconnected(wire: Wire) -> None:
    held_by(wire, limit=9)
    wire.server_sends(SETTINGS + STATUS_200 % 4)
    assert wire.got().startswith(b"502")
    assert wire.servers[0] in wire.closed


def test_header_fields_of_a_response_that_has_ended_no_longer_count(wire: Wire) -> None:
    held = held_by(wire, limit=10)
    wire.server_sends(SETTINGS + STATUS_200 % 5)
    assert (wire.got(), held._total) == (b"200 ", 0)


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\0b", b"a\r\n b"])
def test_does_not_forward_a_field_with_a_line_break_or_nul(wire: Wire, value: bytes) -> None:
    block = b"\x88\0\1x%c%s" % (len(value), value)
    wire.server_sends(SETTINGS + b"\0\0%c\1\5\0\0\0\1" % len(block) + block)
    assert wire.got().startswith(b"502 ")
    assert b"a" + value[1:2] not in wire.got()
    assert wire.servers[0] in wire.closed


ANNOUNCED = 0x7FFF_FFFF
OK = [(":status", "200")]
TRAILERS = [("grpc-status", "0")]


@pytest.mark.parametrize(
    "frames",
    [[goaway(1)], [goaway(ANNOUNCED)], [goaway(0x8000_0001)], [goaway(ANNOUNCED), goaway(1)], [goaway(1, 11, b"calm")]],
)
def test_a_response_goes_on_after_its_server_has_said_goodbye(wire: Wire, frames: list[bytes]) -> None:
    end = server_end(wire)
    end.send_headers(1, [(":status", "103")])
    end.send_headers(1, OK)
    end.send_data(1, b"one, ")
    wire.server_sends(end.data_to_send() + frames[0][:5])
    wire.server_sends(b"".join(frames)[5:])
    wire.ask("/new")
    assert (len(wire.servers), requests_at(wire, 0), requests_at(wire)) == (2, [b"GET /x "], [b"GET /new "])
    end.send_data(1, b"two")
    end.send_headers(1, TRAILERS, end_stream=True)
    assert wire.closed == []
    wire.server_sends(end.data_to_send(), 0)
    assert (wire.got(), wire.closed) == (b"200 one, two", [wire.servers[0]])


def test_closes_an_idle_connection_whose_server_says_goodbye(wire: Wire) -> None:
    end = server_end(wire)
    end.send_headers(1, OK, end_stream=True)
    wire.server_sends(end.data_to_send())
    assert (wire.got(), wire.closed) == (b"200 ", [])
    wire.server_sends(goaway(1))
    assert wire.closed == wire.servers


def test_requests_above_the_last_stream_are_sent_again_on_a_new_connection(wire: Wire) -> None:
    numbers = [wire.ask(f"/{name}", method="POST", body=name.encode() * 3) for name in "ab"]
    first = server_end(wire)
    wire.server_sends(goaway(ANNOUNCED))
    assert len(wire.servers) == 1
    wire.server_sends(goaway(1))
    assert requests_at(wire, 1) == [b"POST /a aaa", b"POST /b bbb"]
    second = server_end(wire)
    for number in (1, 3):
        second.send_headers(number, OK)
        second.send_data(number, b"done", end_stream=True)
    wire.server_sends(second.data_to_send())
    assert [wire.got(number) for number in numbers] == [b"200 done", b"200 done"]
    first.send_headers(1, OK, end_stream=True)
    wire.server_sends(first.data_to_send(), 0)
    assert (wire.got(), wire.closed) == (b"200 ", [wire.servers[0]])
    assert requests_at(wire, 0) == [b"GET /x ", b"POST /a aaa", b"POST /b bbb"]  # not even a reset


def test_what_a_server_sends_on_a_stream_that_it_did_not_process_is_ignored(wire: Wire) -> None:
    wire.ask("/late")
    end = server_end(wire)
    end.send_headers(3, OK)
    end.send_data(3, b"late", end_stream=True)
    wire.server_sends(SETTINGS + goaway(1) + end.data_to_send())
    assert (wire.got(3), requests_at(wire)) == (b"...", [b"GET /late "])
    end.send_headers(1, OK, end_stream=True)
    wire.server_sends(end.data_to_send(), 0)
    assert wire.got() == b"200 "


def test_the_rest_of_a_body_that_waits_for_room_goes_to_the_new_connection(wire: Wire) -> None:
    wire.server_sends(b"\0\0\6\4\0\0\0\0\0" + b"\0\4\0\0\0\3")  # three bytes for each stream
    wire.ask("/up", method="POST", body=b"0123456789")
    assert requests_at(wire) == [b"GET /x ", b"POST /up 012..."]
    wire.server_sends(goaway(1) + b"\0\0\4\x08\0\0\0\0\3" + b"\0\0\1\0")  # room for what nobody processes
    assert (requests_at(wire, 0)[1:], requests_at(wire)) == ([b"POST /up 012..."], [b"POST /up 0123456789"])


ONE_STREAM = b"\0\0\6\4\0\0\0\0\0" + b"\0\3\0\0\0\1"


@pytest.mark.parametrize("closes", [False, True])
def test_requests_that_the_server_had_no_room_for_are_sent_on_a_new_connection(wire: Wire, *, closes: bool) -> None:
    wire.server_sends(ONE_STREAM)
    wire.ask("/next", method="POST", body=b"body")
    assert requests_at(wire) == [b"GET /x "]
    if closes:
        wire.closes(wire.servers[0])
    else:
        wire.server_sends(goaway(1))
    assert requests_at(wire) == [b"POST /next body"]
    assert wire.got().startswith(b"502 " if closes else b"...")


def test_a_stream_that_the_server_refuses_is_sent_again_once_on_the_same_connection(wire: Wire) -> None:
    wire.server_sends(SETTINGS + b"\0\0\4\3\0\0\0\0\1" + b"\0\0\0\7")
    assert requests_at(wire) == [b"GET /x ", b"GET /x "]
    wire.server_sends(b"\0\0\4\3\0\0\0\0\3" + b"\0\0\0\7")
    got = wire.got()
    assert got.startswith(b"502 ")
    assert json.loads(got[4:])["reason"] == (
        "the request was not processed: the server refused the stream (REFUSED_STREAM); "
        "the proxy had already sent it a second time; try again later"
    )
    assert len(requests_at(wire)) == 2


def test_a_request_whose_client_has_left_is_not_sent_again(wire: Wire) -> None:
    wire.h2.reset_stream(1)
    wire.flush()
    wire.server_sends(SETTINGS + goaway(0) + b"\0\0\4\3\0\0\0\0\1" + b"\0\0\0\7")
    assert (wire.closed, len(wire.servers)) == (wire.servers, 1)


def test_a_server_that_closes_within_a_response_after_its_goodbye_cuts_it(wire: Wire) -> None:
    wire.server_sends(SETTINGS + goaway(1, 11))
    wire.closes(wire.servers[0])
    assert json.loads(wire.got()[4:])["reason"] == (
        "the server ended the HTTP/2 connection (GOAWAY, ENHANCE_YOUR_CALM); peer closed connection"
    )
