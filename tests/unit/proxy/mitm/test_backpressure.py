from agent_sandbox.proxy.mitm.backpressure import EVENT_BYTES, buffered_bytes, waiting_bytes
from layer_harness import Wire


def test_no_bytes_are_buffered_over_http1() -> None:
    assert buffered_bytes([Wire().layer._http]) == 0


def test_counts_bytes_that_an_http2_client_does_not_accept() -> None:
    wire = Wire()
    wire.ask()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000))
    ends = wire.layer._http.connections
    assert buffered_bytes(ends.values()) == 100_000 - 65_535
    assert wire.layer.held(to_client=True) == 100_000 - 65_535
    assert wire.layer.held(to_client=False) == 0


def test_counts_body_bytes_that_arrive_while_the_server_is_being_dialled() -> None:
    wire = Wire()
    wire.patient = True
    number = wire.ask("/x", ("content-length", "1000"), method="POST", body=bytes(300), ends=False)
    wire.more(number, bytes(400))
    assert waiting_bytes(wire.layer._http.streams.values(), to_client=False) == 700 + 2 * EVENT_BYTES
    assert (wire.layer.held(to_client=False), wire.layer.held(to_client=True)) == (700 + 2 * EVENT_BYTES, 0)
    wire.reached()
    wire.more(number, bytes(300), ends=True)
    assert wire.layer.held(to_client=False) == 0
    assert wire.to_server.endswith(bytes(1000))
