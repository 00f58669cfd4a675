import json

import pytest

from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.flows import FlowHooks
from layer_harness import Wire
from response_shapes import ACCEPTED, REJECTED
from table_tests import each

HEAD_BYTES = Limits().response_head_bytes
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def asked(method: str = "GET") -> Wire:
    wire = Wire()
    wire.ask(method=method)
    return wire


def reason(got: bytes) -> str:
    assert got.startswith(b"502 ")
    told: str = json.loads(got[4:])["reason"]
    return told


@pytest.mark.parametrize("interim", [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_does_not_forward_interim_responses(interim: bytes) -> None:
    wire = asked()
    wire.server_sends(interim)
    assert wire.got() == b"..."
    wire.server_sends(interim + OK)
    assert wire.got() == b"200 ok"


def sent_in(pieces: list[bytes]) -> Wire:
    """Return what comes of a response that arrives like this, after which the server leaves."""
    wire = asked()
    for piece in pieces:
        wire.server_sends(piece)
    if wire.servers[0] not in wire.closed:
        wire.closes(wire.servers[0])
    return wire


@each("name", REJECTED)
def test_malformed_response_head_is_a_502_that_quotes_nothing(name: str) -> None:
    data, problem = REJECTED[name]
    wire = sent_in([data])
    got = wire.got()
    assert reason(got) == f"malformed response from the server: {problem}"
    assert (b"bad-head" in got, b"orged" in got) == (False, False)
    assert wire.closed == [wire.servers[0]]


@each("name", ACCEPTED)
def test_response_of_a_real_server_is_forwarded(name: str) -> None:
    data, wanted = ACCEPTED[name]
    assert sent_in([data]).got() == in_http2(wanted)


def in_http2(response: bytes) -> bytes:
    """Return what an HTTP/2 client gets of a response: its status and body."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = body.split(b"\r\n")
    return head[9:12] + b" " + (b"".join(lines[1::2]) if b"chunked" in head.lower() else body)


@each("name", [name for name, (data, _) in (REJECTED | ACCEPTED).items() if len(data) < 500])
def test_response_is_read_the_same_if_each_byte_comes_alone(name: str) -> None:
    data, _ = (REJECTED | ACCEPTED)[name]
    whole, apart = sent_in([data]), sent_in([bytes([byte]) for byte in data])
    if name in REJECTED:
        assert apart.got().startswith(b"502 ")
        assert (b"bad-head" in apart.got(), b"orged" in apart.got()) == (False, False)
        assert apart.closed == [apart.servers[0]]
    else:
        assert apart.got() == whole.got()


@pytest.mark.parametrize("behind", [b"", b"x", OK, b"0\r\n\r\n", b"\r\n"])
@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_bytes_after_a_response_without_a_body_are_dropped_with_the_connection(status: bytes, behind: bytes) -> None:
    wire = asked()
    wire.server_sends(b"HTTP/1.1 " + status + b"\r\n\r\n" + behind)
    assert (wire.got(), wire.closed) == (status[:4], wire.servers)


@pytest.mark.parametrize("declared", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
def test_response_to_head_has_no_body_whatever_it_declares(declared: bytes) -> None:
    wire = asked("HEAD")
    wire.server_sends(b"HTTP/1.1 200 OK\r\n" + declared + b"\r\n\r\n")
    assert (wire.got(), wire.closed) == (b"200 ", wire.servers)


def test_response_to_head_with_ambiguous_framing_is_a_502() -> None:
    wire = asked("HEAD")
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert wire.got() == b"502 "


@pytest.mark.parametrize(
    "begun", [b"H", b"HTTP/1.1 200 OK\r\nX-Mark: bad-head\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP"]
)
def test_answers_502_if_the_server_closes_within_the_response_head(begun: bytes) -> None:
    wire = asked()
    wire.server_sends(begun)
    wire.closes(wire.servers[0])
    assert reason(wire.got()) == "the server closed the connection before the end of its response head"


@pytest.mark.parametrize("early", [OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"x"])
def test_a_server_connection_carries_one_request_and_drops_what_follows_its_response(early: bytes) -> None:
    wire = asked()
    wire.server_sends(OK + early)
    wire.server_sends(early)
    assert (wire.got(), wire.closed) == (b"200 ok", [wire.servers[0]])
    wire.ask()
    assert len(wire.servers) == 2
    wire.server_sends(OK)
    assert wire.got(3) == b"200 ok"


@pytest.mark.parametrize("early", [OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"x" * (HEAD_BYTES + 1)])
def test_closes_a_server_that_answers_before_it_was_asked(early: bytes) -> None:
    wire = asked()
    end = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    end.request = None
    wire.server_sends(early)
    assert (wire.got(), wire.closed) == (b"...", [wire.servers[0]])


def test_rejects_interim_responses_that_exceed_the_head_limit() -> None:
    wire = asked()
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    wire.server_sends(interim * (HEAD_BYTES // len(interim)))
    assert wire.got() == b"..."
    wire.server_sends(interim)
    assert "malformed response from the server: its head is larger than" in reason(wire.got())
    assert wire.closed == [wire.servers[0]]


def test_counts_interim_responses_for_each_request_separately() -> None:
    wire = asked()
    interim = b"HTTP/1.1 100 Continue\r\nX: %s\r\n\r\n" % (b"x" * (HEAD_BYTES * 2 // 3))
    wire.server_sends(interim + OK)
    wire.ask()
    wire.server_sends(interim + OK)
    assert (wire.got(1), wire.got(3)) == (b"200 ok", b"200 ok")


@pytest.mark.parametrize("endless", [b"1;", b"1\r\na\r\n0\r\nX: "])
def test_limits_the_length_of_chunk_size_lines_and_trailers(endless: bytes) -> None:
    wire = asked()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + endless + b"x" * (HEAD_BYTES - 10))
    assert wire.closed == []
    wire.server_sends(b"x" * 100)
    assert wire.closed == [wire.servers[0]]
    assert wire.got().startswith(b"200 reset")


def test_does_not_buffer_bytes_after_an_early_response() -> None:
    wire = Wire()
    number = wire.ask(method="POST", ends=False)
    wire.server_sends(OK + b"x" * HEAD_BYTES)
    assert (wire.got(), held_by(wire), wire.reset) == (b"200 ok", 0, wire.servers)
    wire.more(number, b"ab", ends=True)
    assert wire.closed == [wire.servers[0]]


def test_does_not_forward_101_switching_protocols() -> None:
    wire = Wire(Streamer())
    wire.ask("/x", ("sec-websocket-version", "13"))
    wire.server_sends(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert (wire.got(), wire.faults) == (b"reset ", [])


def test_drops_trailers_of_a_response() -> None:
    wire = asked()
    wire.server_sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n")
    assert (wire.got(), b"x-sum" in wire.to_client) == (b"200 ok", False)
    wire.ask()
    wire.server_sends(OK)
    assert wire.got(3) == b"200 ok"


def test_sends_a_body_without_a_length_in_chunks_and_ends_it_at_the_trailers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowHooks, "request", lambda *_: None)  # which would drop them before
    wire = Wire()
    number = wire.ask(method="POST", body=b"GET / HTTP/1.1", ends=False)
    wire.h2.send_headers(number, [("x-sum", "1")], end_stream=True)
    wire.flush()
    head, _, body = wire.to_server.partition(b"\r\n\r\n")
    assert head == b"POST /x HTTP/1.1\r\nHost: a.test\r\ntransfer-encoding: chunked"
    assert body == b"e\r\nGET / HTTP/1.1\r\n0\r\n\r\n"


def test_resets_the_server_if_the_client_leaves_within_its_request_body() -> None:
    wire = Wire()
    wire.ask("/x", ("content-length", "9"), method="POST", body=b"half", ends=False)
    wire.closes(wire.client)
    assert wire.reset == wire.servers


@pytest.mark.parametrize(("reset", "got"), [(True, b"200 reset as much as"), (False, b"200 as much as")])
def test_cuts_a_response_without_a_length_only_if_the_server_resets_the_connection(got: bytes, *, reset: bool) -> None:
    wire = asked()
    wire.server_sends(b"HTTP/1.1 200 OK\r\n\r\nas much as")
    wire.servers[-1].error = "reset" if reset else None
    wire.closes(wire.servers[-1])
    assert wire.got() == got


def held_by(wire: Wire) -> int:
    client = wire.layer._http.connections[wire.servers[0]].child_layer  # type: ignore[attr-defined]
    return len(client.buf)
