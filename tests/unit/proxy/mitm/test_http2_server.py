import pytest
from h2.settings import SettingCodes

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.http2_server import StrictHttp2Server
from layer_harness import HTTP2_FIELDS, Malformed, Wire, goaway

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_forwards_an_http2_request_to_an_http1_server() -> None:
    client = Wire()
    client.ask()
    assert client.to_server.startswith(b"GET /x HTTP/1.1\r\nHost: a.test\r\n")
    client.server_sends(OK)
    assert client.got() == b"200 ok"


@pytest.mark.parametrize("code", [0, 2])
def test_a_client_that_says_goodbye_without_an_error_gets_its_response(code: int) -> None:
    client = Wire()
    client.ask(method="POST", ends=False)
    client.client_sends(goaway(0, code, b"bye"))
    client.more(1, b"body", ends=True)
    client.server_sends(OK)
    got = (client.got(), client.to_server.endswith(b"4\r\nbody\r\n0\r\n\r\n"), client.client in client.closed)
    assert got == ((b"...", False, True) if code else (b"200 ok", True, False))


def test_ignores_a_client_that_asks_for_a_larger_header_table() -> None:
    client = Wire()
    client.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**31 - 1})
    client.flush()
    end = client.layer._http.connections[client.client]
    assert isinstance(end, StrictHttp2Server)
    assert end.h2_conn.encoder.header_table_size == 4096


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_closes_the_connection_after_too_many_cancelled_streams(*, ends: bool, at_once: bool) -> None:
    log = Malformed()
    client = Wire(log, limits=Limits(streams_reset=2))
    for turn in range(3):
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, HTTP2_FIELDS, end_stream=ends)
        if not at_once:
            client.flush()
        client.h2.reset_stream(number)
        client.flush()
        assert turn == 2 or (client.reset == client.servers and not client.layer.exchanges)
    assert log.reasons == ["too many cancelled streams"]
    assert client.client in client.closed


def test_does_not_count_the_reset_of_a_stream_that_has_ended() -> None:
    log = Malformed()
    client = Wire(log, limits=Limits(streams_reset=0))
    client.ask()
    client.server_sends(OK)
    client.client_sends(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08")
    assert log.reasons == []


@pytest.mark.parametrize(("sent", "reasons"), [(b"", 1), (b"1234", 1), (b"123456789", 0)])
def test_a_request_that_ends_before_its_content_length_is_malformed(sent: bytes, reasons: int) -> None:
    log = Malformed()
    client = Wire(log)
    number = client.h2.get_next_available_stream_id()
    client.h2.send_headers(number, [*HTTP2_FIELDS, ("content-length", "9")])
    client.h2.send_data(number, sent)
    client.h2.send_headers(number, [("content-length", "4")], end_stream=True)
    client.flush()
    assert log.reasons == ["the body is shorter than its content-length"] * reasons
    assert (client.client in client.closed) == bool(reasons)


def test_limits_the_header_fields_of_all_open_requests_together() -> None:
    log = Malformed()
    client = Wire(log, limits=Limits(held_bytes=5_000))
    for _ in range(3):
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*HTTP2_FIELDS, ("x", "y" * 2_000)])
        client.flush()
    assert (log.reasons, client.client in client.closed) == (["too many header fields in the requests under way"], True)


def test_counts_header_fields_of_cancelled_requests_that_wait_for_a_server() -> None:
    log = Malformed()
    client = Wire(log, limits=Limits(held_bytes=5_000))
    client.patient = True
    for _ in range(3):
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*HTTP2_FIELDS, ("x", "y" * 2_000)], end_stream=True)
        client.flush()
        client.h2.reset_stream(number)
        client.flush()
    assert log.reasons == ["too many header fields in the requests under way"]


def test_does_not_count_header_fields_of_finished_requests() -> None:
    log = Malformed()
    client = Wire(log, limits=Limits(held_bytes=5_000))
    for _ in range(9):
        client.ask("/" + "y" * 2_000)
        client.server_sends(OK)
    assert (log.reasons, client.client in client.closed) == ([], False)


@pytest.mark.parametrize("ends", [False, True])
def test_counts_header_fields_of_requests_with_an_early_response_until_the_requests_end(*, ends: bool) -> None:
    log = Malformed()
    client = Wire(log, limits=Limits(held_bytes=5_000))
    for number in (1, 3, 5):
        client.h2.send_headers(number, [*HTTP2_FIELDS, ("x", "y" * 2_000)])
        client.flush()
        client.server_sends(OK)
        client.got(number)
        if ends:
            client.h2.end_stream(number)
            client.flush()
    assert log.reasons == ([] if ends else ["too many header fields in the requests under way"])


def test_a_malformed_field_is_logged_without_its_value() -> None:
    log = Malformed()
    client = Wire(log)
    client.h2.send_headers(1, [*HTTP2_FIELDS, ("authorization", "hunter2\n")], end_stream=True)
    client.flush()
    assert len(log.reasons) == 1
    assert log.reasons[0].startswith("HTTP/2 protocol error: ")
    assert "hunter2" not in log.reasons[0]
