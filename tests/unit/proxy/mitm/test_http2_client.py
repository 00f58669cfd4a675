from __future__ import annotations

from agent_sandbox.proxy.mitm.http2_client import StrictHttp2Client
from agent_sandbox.proxy.wire.hpack import BoundedEncoder
from layer_harness import PLAIN, Wire


def test_a_server_that_speaks_http2_has_no_say_in_how_much_is_remembered() -> None:
    wire = Wire(PLAIN)
    wire.server_alpn = b"h2"
    wire.client_sends(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    end = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    assert (type(end), type(end.h2_conn.encoder)) == (StrictHttp2Client, BoundedEncoder)
    wire.server_sends(b"\0\0\6\4\0\0\0\0\0" + b"\0\1\x7f\xff\xff\xff")
    assert end.h2_conn.encoder.header_table_size == 4096


def test_why_a_connection_ended_is_told_without_what_the_server_said() -> None:
    wire = Wire(PLAIN)
    wire.server_alpn = b"h2"
    wire.client_sends(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    wire.server_sends(b"\0\0\0\4\0\0\0\0\0")
    wire.server_sends(b"\0\0\x10\7\0\0\0\0\0" + b"\0\0\0\0" + b"\0\0\0\1" + b"hunter22")
    assert b'"reason": "HTTP/2 connection closed"' in wire.to_client
