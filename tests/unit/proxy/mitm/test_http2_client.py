from __future__ import annotations

import pytest

from agent_sandbox.proxy.mitm.held_fields import HeldFields
from agent_sandbox.proxy.mitm.http2_client import StrictHttp2Client
from agent_sandbox.proxy.wire.hpack import BoundedEncoder
from layer_harness import Wire

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
    wire.server_sends(SETTINGS)
    wire.server_sends(b"\0\0\x10\7\0\0\0\0\0" + b"\0\0\0\0" + b"\0\0\0\1" + b"hunter22")
    assert b'"reason": "HTTP/2 connection closed"' in wire.got()


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
