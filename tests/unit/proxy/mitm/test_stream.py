from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, override

import h2.config
import h2.connection
import h2.events
import pytest
from mitmproxy.http import Headers
from mitmproxy.proxy import events
from mitmproxy.proxy.layers.http._events import ResponseTrailers

from agent_sandbox.policy import Policy
from agent_sandbox.policy.http.graphql_body import MAX_BODY, TOO_LONG
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import OverBudget
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.flows import FlowHooks
from agent_sandbox.proxy.mitm.http_layer import PolicyReplaced
from agent_sandbox.proxy.mitm.stream import StrictStream
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached, Refused
from http2_stage import chosen
from layer_harness import HTTP2_FIELDS, PLAIN, Deny, Http2Wire, LetThrough, Wait, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from mitmproxy import http

    from agent_sandbox.proxy.exchange.exchange import Exchange
    from agent_sandbox.proxy.mitm.flows import ExchangeOwner
    from agent_sandbox.proxy.tunnel import Tunnel
    from http2_stage import Http2Stage, Http2Talk

    type TwoKinds = Callable[..., Http2Stage]

POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Stream:
    """Keeps how exchanges ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    @hook
    def response(self, exchange: Exchange, _: Tunnel) -> None:
        """Keep the status."""
        self.ended.append(str(exchange.status))

    @hook
    def error(self, exchange: Exchange, _: Tunnel) -> None:
        """Keep the error."""
        self.ended.append(exchange.error)


def reason(data: bytes) -> str:
    told: str = json.loads(data.partition(b"\r\n\r\n")[2])["reason"]
    return told


def test_sends_a_denial_before_the_body_arrives() -> None:
    wire = Wire(PLAIN, Deny())
    assert reason(wire.client_sends(POST)) == "no"
    assert wire.client_sends(b"x" * 10).count(b"HTTP/1.1") == 1
    assert wire.client_sends(GET).count(b"HTTP/1.1 403") == 2
    assert wire.servers == []


def test_sends_the_denial_of_a_request_without_a_body_at_once() -> None:
    assert reason(Wire(PLAIN, Deny()).client_sends(GET)) == "no"


@pytest.mark.parametrize("request_", [GET, POST])
@pytest.mark.parametrize(
    ("why", "status"), [(NotReached("gone"), b"502 Bad Gateway"), (Refused("inside"), b"403 Forbidden")]
)
def test_answers_with_the_reason_if_the_server_is_not_reached_or_refused(
    request_: bytes, why: NotReached, status: bytes
) -> None:
    addon = Stream()
    wire = Wire(PLAIN, addon)
    wire.refuse_dial = why
    got = wire.client_sends(request_)
    assert got.startswith(b"HTTP/1.1 " + status)
    assert reason(got) == str(why)
    assert addon.ended == [status[:3].decode()]


def test_the_next_request_retries_the_server_connection() -> None:
    wire = Wire(PLAIN, Stream())
    wire.refuse_dial = NotReached("gone")
    wire.client_sends(GET)
    wire.refuse_dial = None
    wire.client_sends(GET)
    assert wire.server_sends(OK).endswith(OK)


def test_reports_mitmproxys_error_text_for_a_failed_connection() -> None:
    wire = Wire(PLAIN, Stream())
    wire.refuse_dial = "Certificate verify failed"  # type: ignore[assignment] # as its TLS layer says it
    assert reason(wire.client_sends(GET)) == "Certificate verify failed"


def test_answers_502_to_a_malformed_response_and_closes_the_server() -> None:
    wire = Wire(PLAIN, Stream())
    wire.client_sends(GET)
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 502")
    assert reason(got) == "malformed response from the server: both Content-Length and Transfer-Encoding"
    assert wire.servers[0] in wire.closed


def test_answers_502_if_the_server_closes_without_a_response() -> None:
    addon = Stream()
    wire = Wire(PLAIN, addon)
    wire.client_sends(GET)
    wire.closes(wire.servers[0])
    assert reason(wire.to_client) == "server closed connection"
    assert addon.ended == ["502"]


def test_records_an_error_if_the_server_closes_within_a_response() -> None:
    addon = Stream()
    wire = Wire(PLAIN, addon)
    wire.client_sends(GET)
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    wire.closes(wire.servers[0])
    assert wire.to_client.endswith(b"half")
    assert len(addon.ended) == 1
    assert "peer closed connection without sending complete message body" in addon.ended[0]


def test_runs_an_end_hook_once_if_the_client_leaves_within_its_request() -> None:
    addon = Stream()
    wire = Wire(PLAIN, addon)
    wire.client_sends(POST)
    wire.closes(wire.client)
    assert len(addon.ended) == 1


def test_closes_a_websocket_when_a_message_exceeds_the_limit() -> None:
    wire = Wire(PLAIN, limits=Limits(websocket_bytes=100))
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    wire.client_sends(GET[:-2] + upgrade)
    wire.server_sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    first, next_ = b"\x02\xe0" + bytes(4 + 0x60), b"\x00\xe0" + bytes(4 + 0x60)
    before = wire.to_server
    for piece in (first, next_):
        assert wire.client not in wire.closed
        wire.client_sends(piece)
    assert (wire.to_server, {wire.client, *wire.servers}) == (before + first, set(wire.closed))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([(":method", "CONNECT")], "CONNECT is valid only as the first request to the proxy"),
        ([(":method", "GET"), ("content-length", "x")], "invalid content-length header: b'x'"),
    ],
)
def test_does_not_forward_an_http2_connect_or_an_invalid_content_length(
    fields: list[tuple[str, str]], why: str
) -> None:
    addon = Stream()
    wire = Wire(PLAIN, addon, alpn=b"h2")
    client = h2.connection.H2Connection(
        h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    )
    client.initiate_connection()
    method, *more = fields
    pseudo = [method, (":scheme", "https"), (":authority", "a.test"), (":path", "/x")]
    client.send_headers(1, [*pseudo, *more], end_stream=True)
    wire.client_sends(client.data_to_send())
    if why.startswith("CONNECT"):
        assert addon.ended == ["400"]
        assert why.encode() in wire.to_client
    assert wire.servers == []


class Stage:
    """A wire that is decided by a policy, which is replaced by one that allows nothing of it."""

    def __init__(self, policy: Callable[[str], Policy], *, allowed: str = "a.test", alpn: bytes | None = None) -> None:
        old = policy(f"domains: [{allowed}]")
        self.revision = PolicyTransition(old=old, new=policy("domains: [b.test]"))
        self.ended = Stream()
        enforcer = Enforcer(lambda: old, clock=lambda: 0.0)
        self.wire = Wire(PLAIN, enforcer, Streamer(), self.ended, alpn=alpn)

    def replace(self, revision: PolicyTransition | None = None) -> int:
        """Replace it; return how many requests that broke off."""
        event = PolicyReplaced(revision or self.revision)
        self.wire.feed(event)
        return event.ended


NO_MORE = "the policy was reloaded: no rule allows host a.test"


def test_a_reload_denies_a_request_that_waits_for_its_response(
    policy: Callable[[str], Policy],
) -> None:
    stage = Stage(policy)
    stage.wire.client_sends(GET)
    assert stage.replace() == 1
    assert stage.wire.to_client.startswith(b"HTTP/1.1 403")
    assert reason(stage.wire.to_client) == NO_MORE
    assert (stage.ended.ended, stage.wire.reset) == (["403"], stage.wire.servers)
    assert stage.replace() == 0


def test_a_reload_does_not_end_a_request_that_is_still_allowed(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy)
    stage.wire.client_sends(GET)
    assert stage.replace(PolicyTransition(old=stage.revision.new, new=stage.revision.old)) == 0
    assert stage.wire.server_sends(OK) == OK


def test_a_reload_cuts_an_upload_that_is_no_longer_allowed(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy)
    stage.wire.client_sends(POST + b"half")
    assert stage.replace() == 1
    assert (reason(stage.wire.to_client), stage.wire.reset) == (NO_MORE, stage.wire.servers)
    assert stage.wire.client_sends(b" more ").count(b"HTTP/1.1") == 1


def test_a_reload_cuts_a_response_that_is_no_longer_allowed(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy)
    stage.wire.client_sends(GET)
    stage.wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    assert stage.replace() == 1
    assert stage.wire.to_client.endswith(b"half")
    assert stage.wire.client in stage.wire.closed
    assert (stage.ended.ended, stage.wire.reset) == ([NO_MORE], stage.wire.servers)


CHUNKED_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [OK, CHUNKED_OK])
@pytest.mark.parametrize("closes", [False, True])
def test_sends_an_early_response_completely_and_drops_the_rest_of_the_request(answer: bytes, *, closes: bool) -> None:
    stream = Stream()
    wire = Wire(PLAIN, stream)
    wire.client_sends(POST + b"half")
    assert wire.server_sends(answer) == answer
    assert wire.reset == wire.servers
    if closes:
        wire.closes(wire.servers[0])
    wire.client_sends(b"a body")
    assert wire.to_server.endswith(b"half")
    wire.client_sends(GET)
    assert wire.server_sends(OK) == answer + OK
    assert (stream.ended, wire.client in wire.closed, len(wire.servers)) == (["200", "200"], False, 2)


def test_an_early_response_over_http2_ends_its_stream() -> None:
    client = Http2Wire()
    client.h2.send_headers(1, HTTP2_FIELDS)
    client.h2.send_data(1, b"half")
    client.client_sends(client.h2.data_to_send())
    client.server_sends(CHUNKED_OK)
    assert [type(event) for event in client.events()][-1] is h2.events.StreamEnded
    client.h2.send_data(1, b"rest", end_stream=True)
    client.client_sends(client.h2.data_to_send())
    assert client.to_server.endswith(b"\r\n\r\n4\r\nhalf\r\n")
    assert (client.reset, client.layer.idle) == (client.servers, True)


def test_resets_the_server_if_the_client_cancels_after_an_early_response() -> None:
    stream = Stream()
    client = Http2Wire(stream)
    client.h2.send_headers(1, HTTP2_FIELDS)
    client.client_sends(client.h2.data_to_send())
    client.server_sends(OK)
    client.events()
    client.h2.reset_stream(1)
    client.client_sends(client.h2.data_to_send())
    assert (stream.ended, client.reset, client.layer.idle) == (["200"], client.servers, True)


def test_a_reload_closes_a_websocket_that_is_no_longer_allowed(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy)
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
    stage.wire.client_sends(GET[:-2] + upgrade)
    stage.wire.server_sends(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    assert stage.replace() == 1
    assert {stage.wire.client, *stage.wire.servers} == set(stage.wire.closed)
    assert stage.replace() == 0


def test_a_request_that_a_reload_denies_while_connecting_is_not_sent(
    policy: Callable[[str], Policy],
) -> None:
    stage = Stage(policy)
    stage.wire.patient = True
    stage.wire.client_sends(GET)
    assert stage.wire.to_server == b""
    assert stage.replace() == 1
    assert reason(stage.wire.to_client) == NO_MORE
    stage.wire.reached()
    assert stage.wire.to_server == b""
    assert stage.ended.ended == ["403"]


def test_a_request_that_a_reload_denies_gets_403_even_if_its_server_is_not_reached(
    policy: Callable[[str], Policy],
) -> None:
    stage = Stage(policy)
    stage.wire.patient = True
    stage.wire.client_sends(GET)
    stage.replace()
    stage.wire.refuse_dial = NotReached("gone")
    stage.wire.reached()
    assert stage.wire.to_client.startswith(b"HTTP/1.1 403")
    assert (reason(stage.wire.to_client), stage.ended.ended) == (NO_MORE, ["403"])


def test_a_reload_ends_no_request_that_no_policy_decided() -> None:
    wire = Wire(PLAIN, Stream())
    wire.client_sends(GET)
    event = PolicyReplaced(PolicyTransition(old=Policy.deny_all(""), new=Policy.deny_all("")))
    wire.feed(event)
    assert event.ended == 0


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
TEN = "{host: a.test, rules: [{methods: [POST], max_body: 10}]}"
TOO_LARGE = "the body is larger than the 10 bytes that policy.yaml:2 allows"


@pytest.mark.parametrize(
    "pieces", [[b"5\r\nhello\r\n", b"6\r\nworlds\r\n"], [b"b\r\nhello", b"worlds\r\n"], [b"1\r\nx\r\n"] * 11]
)
def test_answers_413_to_a_body_that_exceeds_max_body(policy: Callable[[str], Policy], pieces: list[bytes]) -> None:
    stage = Stage(policy, allowed=TEN)
    stage.wire.client_sends(CHUNKED)
    for piece in pieces:
        stage.wire.client_sends(piece)
    assert stage.wire.to_client.startswith(b"HTTP/1.1 413 Request Entity Too Large\r\nx-agent-sandbox: blocked")
    assert reason(stage.wire.to_client) == TOO_LARGE
    assert not stage.wire.to_server.endswith(b"0\r\n\r\n")
    assert (stage.ended.ended, stage.wire.reset) == (["413"], stage.wire.servers)


def test_forwards_a_body_of_exactly_max_body(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy, allowed=TEN)
    stage.wire.client_sends(CHUNKED + b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n")
    assert stage.wire.server_sends(OK) == OK
    assert stage.ended.ended == ["200"]


def test_cuts_a_response_whose_request_body_exceeds_max_body(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy, allowed=TEN)
    stage.wire.client_sends(CHUNKED + b"5\r\nhello\r\n")
    stage.wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    stage.wire.client_sends(b"6\r\nworlds\r\n")
    assert stage.wire.client in stage.wire.closed
    assert (stage.ended.ended, stage.wire.reset) == ([TOO_LARGE], stage.wire.servers)


def test_applies_the_max_body_of_a_new_policy_to_requests_under_way(policy: Callable[[str], Policy]) -> None:
    stage = Stage(policy)
    stage.wire.client_sends(CHUNKED + b"5\r\nhello\r\n")
    assert stage.replace(PolicyTransition(old=stage.revision.new, new=policy(f"domains: [{TEN}]"))) == 0
    stage.wire.client_sends(b"6\r\nworlds\r\n")
    assert reason(stage.wire.to_client) == TOO_LARGE


ASKING = """
domains: [{host: a.test, rules: [{path: {exact: /graphql}, graphql: {query: [viewer]}}]}]
"""
READING = b'{"query": "{viewer{login}}"}'
WRITING = b'{"query": "mutation{deleteRef{id}}"}'


def head(*fields: bytes, path: bytes = b"/graphql") -> bytes:
    lines = (b"POST " + path + b" HTTP/1.1", b"Host: a.test", b"Content-Type: application/json", *fields)
    return b"\r\n".join(lines) + b"\r\n\r\n"


class Asked:
    """A wire whose bodies are read before they are decided."""

    def __init__(self, policy: Callable[[str], Policy], *, alpn: bytes | None = None) -> None:
        current, self.ended = policy(ASKING), Stream()
        enforcer = Enforcer(lambda: current, clock=lambda: 0.0)
        self.wire = Wire(PLAIN, enforcer, Streamer(), self.ended, alpn=alpn)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_holds_a_body_until_the_decision_and_forwards_it_unchanged(policy: Callable[[str], Policy], size: int) -> None:
    wire = Asked(policy).wire
    wire.client_sends(head(b"Content-Length: %d" % len(READING)))
    for start in range(0, len(READING), size):
        assert wire.servers == []
        wire.client_sends(READING[start : start + size])
    assert wire.to_server.partition(b"\r\n\r\n")[2] == READING
    assert wire.server_sends(OK) == OK


def test_decides_on_a_chunked_body_when_it_is_complete(policy: Callable[[str], Policy]) -> None:
    wire = Asked(policy).wire
    wire.client_sends(head(b"Transfer-Encoding: chunked") + b"5\r\n" + READING[:5] + b"\r\n")
    assert wire.servers == []
    wire.client_sends(b"%x\r\n%s\r\n0\r\n\r\n" % (len(READING) - 5, READING[5:]))
    assert wire.to_server.partition(b"\r\n\r\n")[2] == b"%x\r\n%s\r\n0\r\n\r\n" % (len(READING), READING)


def test_does_not_forward_a_denied_body_and_decides_the_next_request_afresh(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy)
    asked.wire.client_sends(head(b"Content-Length: %d" % len(WRITING)) + WRITING)
    assert asked.wire.to_client.startswith(b"HTTP/1.1 403")
    assert asked.wire.servers == []
    asked.wire.client_sends(head(b"Content-Length: %d" % len(READING)) + READING)
    assert asked.wire.to_server.count(b"POST") == 1
    assert asked.ended.ended == ["403"]


def test_answers_100_continue_to_a_client_whose_body_is_needed_for_the_decision(
    policy: Callable[[str], Policy],
) -> None:
    wire = Asked(policy).wire
    got = wire.client_sends(head(b"Content-Length: %d" % len(READING), b"Expect: 100-continue"))
    assert got.startswith(b"HTTP/1.1 100")
    wire.client_sends(READING)
    assert b"expect" not in wire.to_server.lower()
    assert wire.to_server.endswith(READING)


def test_answers_413_if_a_held_body_exceeds_the_limit(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy)
    asked.wire.client_sends(head(b"Transfer-Encoding: chunked"))
    piece = b"%x\r\n%s\r\n" % (MAX_BODY // 2 + 1, bytes(MAX_BODY // 2 + 1))
    assert asked.wire.client_sends(piece) == b""
    assert asked.wire.client_sends(piece).startswith(b"HTTP/1.1 413")
    assert reason(asked.wire.to_client) == TOO_LONG
    asked.wire.client_sends(piece + b"0\r\n\r\n")
    assert (asked.ended.ended, asked.wire.servers) == (["413"], [])


def test_answers_408_if_a_held_body_does_not_arrive_in_time(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy)
    asked.wire.client_sends(head(b"Content-Length: 100") + READING)
    (patience,) = [wakeup for wakeup in asked.wire.wakeups if wakeup.delay == Limits().body_seconds]
    asked.wire.feed(events.Wakeup(patience))
    assert asked.wire.to_client.startswith(b"HTTP/1.1 408")
    assert reason(asked.wire.to_client) == "the request body did not arrive in time"
    asked.wire.client_sends(bytes(100))
    assert (asked.ended.ended, asked.wire.servers) == (["408"], [])


def test_ignores_the_body_timer_after_the_body_has_arrived(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy)
    asked.wire.client_sends(head(b"Content-Length: %d" % len(READING)) + READING)
    asked.wire.feed(events.Wakeup(asked.wire.wakeups[-1]))
    assert asked.wire.server_sends(OK) == OK


def test_releases_a_held_body_when_it_has_been_forwarded(policy: Callable[[str], Policy]) -> None:
    wire = Asked(policy).wire
    wire.client_sends(head(b"Content-Length: %d" % len(READING)) + READING)
    (stream,) = wire.layer._http.streams.values()
    assert isinstance(stream, StrictStream)
    exchange = stream.exchange
    assert exchange
    assert (exchange.held, exchange.body, exchange.sent.count) == (False, b"", len(READING))
    assert stream.flow
    assert stream.flow.request.data.content is None


def test_runs_an_end_hook_once_if_the_client_leaves_within_a_held_body(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy)
    asked.wire.client_sends(head(b"Content-Length: 100") + READING)
    asked.wire.closes(asked.wire.client)
    assert (len(asked.ended.ended), asked.wire.servers) == (1, [])


def test_holds_http2_bodies_until_the_decision(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy, alpn=b"h2")
    client = h2.connection.H2Connection()
    client.initiate_connection()
    fields = [(":method", "POST"), (":scheme", "http"), (":authority", "a.test"), (":path", "/graphql")]
    for number, body in ((1, READING), (3, WRITING)):
        client.send_headers(number, [*fields, ("content-type", "application/json")])
        client.send_data(number, body[:5])
        asked.wire.client_sends(client.data_to_send())
        assert len(asked.wire.servers) == (number == 3)
        client.send_data(number, body[5:], end_stream=True)
        asked.wire.client_sends(client.data_to_send())
    assert asked.wire.to_server.count(b"POST /graphql") == 1
    assert READING in asked.wire.to_server
    assert asked.ended.ended == ["403"]
    # The stream that was answered is not kept until its timer fires.
    waiting = asked.wire.layer._http.command_sources.values()
    assert {stream.stream_id for stream in waiting if isinstance(stream, StrictStream)} <= {1}


NO_CHUNK = "malformed body: a malformed chunk size line"


@pytest.mark.parametrize("before", [b"", b"5\r\nhello\r\n"])
def test_answers_400_to_a_malformed_body_and_resets_the_server(policy: Callable[[str], Policy], before: bytes) -> None:
    stage = Stage(policy)
    answer = stage.wire.client_sends(CHUNKED + before + b"no chunk\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert reason(answer) == NO_CHUNK
    assert (stage.ended.ended, stage.wire.reset) == (["400"], stage.wire.servers)
    assert stage.wire.client in stage.wire.closed


def test_a_malformed_request_body_cuts_a_response_that_has_begun(
    policy: Callable[[str], Policy],
) -> None:
    stage = Stage(policy)
    stage.wire.client_sends(CHUNKED)
    stage.wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    assert stage.wire.client_sends(b"no chunk\r\n").endswith(b"half")
    assert (stage.ended.ended, stage.wire.client in stage.wire.closed) == ([NO_CHUNK], True)


def test_does_not_forward_a_malformed_held_body(policy: Callable[[str], Policy]) -> None:
    asked = Asked(policy)
    answer = asked.wire.client_sends(head(b"Transfer-Encoding: chunked") + b"no chunk\r\n")
    assert (reason(answer), asked.ended.ended, asked.wire.servers) == (NO_CHUNK, ["400"], [])


def test_answers_malformed_bodies_and_failed_connections_of_requests_without_an_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def let_through(_: FlowHooks, flow: http.HTTPFlow, __: ExchangeOwner) -> None:
        flow.request.stream = True

    monkeypatch.setattr(FlowHooks, "requestheaders", let_through)
    assert Wire(PLAIN).client_sends(CHUNKED + b"no chunk\r\n").startswith(b"HTTP/1.1 400")
    wire = Wire(PLAIN)
    wire.refuse_dial = NotReached("gone")
    assert wire.client_sends(GET).startswith(b"HTTP/1.1 502")


class Filled(LetThrough):
    """Has put a secret into every request."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Put it in."""
        super().requestheaders(exchange, tunnel)
        exchange.echoes = Echoes([b"hunter22"])


@pytest.mark.parametrize(("encoding", "status"), [(b"identity", b"200"), (b"COMPRESS", b"502"), (b"br, gzip", b"502")])
def test_does_not_forward_a_response_whose_compression_hides_echoes(encoding: bytes, status: bytes) -> None:
    wire = Wire(PLAIN, Filled())
    wire.client_sends(GET)
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Encoding: " + encoding + b"\r\nContent-Length: 1\r\n\r\nx")
    assert got.startswith(b"HTTP/1.1 " + status)
    assert (b"it is compressed, so an echo of the injected secret" in got) == (status == b"502")


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (b"hunter22", "a malformed header line"),
        (b"hunter22 : x", "a malformed header line"),
        (b"Content-Length: hunter22", "the Content-Length is not a plain number"),
        (b"Transfer-Encoding: hunter22", "a Transfer-Encoding other than `chunked`"),
    ],
)
def test_the_reason_for_a_malformed_response_head_does_not_quote_the_head(field: bytes, problem: str) -> None:
    for addon in (Filled(), Stream()):
        wire = Wire(PLAIN, addon)
        wire.client_sends(GET)
        got = wire.server_sends(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\n")
        assert reason(got) == f"malformed response from the server: {problem}"
        assert b"hunter22" not in got


def test_malformed_body_of_a_rejected_response_in_the_same_packet_is_dropped() -> None:
    wire = Wire(PLAIN, Filled())
    wire.client_sends(GET)
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, br\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = wire.server_sends(packed + b"not a chunk\r\n")
    assert got.startswith(b"HTTP/1.1 502 ")
    assert got.count(b"HTTP/1.1 ") == 1
    assert wire.faults == []


class FilledThere(LetThrough):
    """Has put a secret into some requests."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Put it in where it belongs."""
        super().requestheaders(exchange, tunnel)
        exchange.echoes = Echoes([b"hunter22"] if exchange.path == "/secret" else [])


def test_requests_with_and_without_a_secret_use_different_server_connections() -> None:
    wire = Wire(PLAIN, FilledThere())
    for path, servers in ((b"/secret", 1), (b"/x", 2), (b"/secret", 2), (b"/x", 2)):
        wire.client_sends(GET.replace(b"/x", path))
        assert len(wire.servers) == servers
        wire.feed(events.DataReceived(wire.servers[path == b"/x"], OK))
    assert wire.to_client == OK * 4


def test_drops_the_rest_of_a_malformed_response() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: a\rb\r\n\r\nzz\r\n")
    assert got.startswith(b"HTTP/1.1 502")
    assert got.count(b"HTTP/1.1") == 1


def test_notices_that_the_client_leaves_while_its_request_waits() -> None:
    addon, ends = Wait(), Stream()
    wire = Wire(PLAIN, addon, ends)
    wire.client_sends(GET)
    wire.feed(events.ConnectionClosed(wire.client))
    (exchange,) = addon.left
    assert (exchange.waits, ends.ended) == (True, [])
    assert exchange.waiting
    exchange.waiting.end("the client left")
    wire.feed(wire.resumed.pop())
    assert (wire.servers, len(ends.ended)) == ([], 1)


def test_sends_no_empty_chunk_while_redaction_holds_back_bytes() -> None:
    wire = Wire(PLAIN, Filled(), Streamer())
    wire.client_sends(GET)
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhunt\r\n")
    assert got.partition(b"\r\n\r\n")[2] == b""
    got = wire.server_sends(b"3\r\ning\r\n0\r\n\r\n")
    assert got.partition(b"\r\n\r\n")[2] == b"7\r\nhunting\r\n0\r\n\r\n"


def body_of(got: bytes) -> bytes:
    """Return the body of a chunked response."""
    head, _, rest = got.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert b"content-encoding" not in head.lower()
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body


def test_decompresses_and_redacts_a_gzip_response() -> None:
    wire = Wire(PLAIN, Filled(), Streamer())
    wire.client_sends(GET)
    packed = gzip.compress(b"it is hunter22 twice: hunter22")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    got = wire.server_sends(head + packed[:15])
    for byte in packed[15:]:
        got = wire.server_sends(bytes([byte]))
    assert body_of(got) == b"it is ******** twice: ********"


@pytest.mark.parametrize(
    "packed",
    [b"not compressed", gzip.compress(b"x" * 99)[:-9], gzip.compress(bytes(99 << 20))],
    ids=["not compressed", "cut off", "too large"],
)
def test_cuts_a_response_that_cannot_be_decompressed(packed: bytes) -> None:
    wire = Wire(PLAIN, Filled(), Streamer())
    wire.client_sends(GET)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    got = wire.server_sends(head + packed)
    assert not got.endswith(b"0\r\n\r\n")
    assert len(got) < 3 << 20
    assert wire.client in wire.cut


def test_forwards_the_compressed_response_to_a_head_request_unchanged() -> None:
    wire = Wire(PLAIN, Filled(), Streamer())
    wire.client_sends(GET.replace(b"GET", b"HEAD"))
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n")
    assert got == b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"


def test_cuts_a_response_when_a_budget_is_used_up() -> None:
    wire = Wire(PLAIN)
    wire.client_sends(GET)
    (exchange,) = wire.layer.exchanges
    exchange.received.spend = lambda _, size: OverBudget("no more", 9) if size > 4 else None
    got = wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf")
    assert wire.server_sends(b"and more") == got
    assert wire.client in wire.cut
    assert (exchange.outcome.reason, exchange.outcome.cause) == ("no more", "budget")


LIST = b'{"result": {"tools": [{"name": "a"}, {"name": "b"}]}}'
HELD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Lists(LetThrough):
    """Asks an MCP server for its tools."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Show one of them."""
        super().requestheaders(exchange, tunnel)
        exchange.shows_tool = "a".__eq__


def listing() -> Wire:
    wire = Wire(PLAIN, Lists(), Streamer())
    wire.client_sends(GET)
    return wire


def test_filters_and_sends_a_list_of_tools_when_it_is_complete() -> None:
    wire = listing()
    assert wire.server_sends(HELD % len(LIST) + LIST[:9]) == b""
    got = wire.server_sends(LIST[9:])
    assert got.startswith(b"HTTP/1.1 200")
    assert body_of(got) == b'{"result": {"tools": [{"name": "a"}]}}'
    wire.client_sends(GET)
    assert (len(wire.servers), wire.faults) == (1, [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HELD % 4 + b"oops", "a body that is not JSON in UTF-8"),
        (HELD % (2 << 20) + b" " * (1 << 20) + b" ", "a message of more than 1024 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "it is neither JSON nor an event stream"),
    ],
)
def test_answers_502_if_a_list_of_tools_cannot_be_filtered(answer: bytes, why: str) -> None:
    wire = listing()
    got = wire.server_sends(answer)
    assert got.startswith(b"HTTP/1.1 502")
    assert reason(got) == f"the server's response cannot be forwarded: its list of tools could not be filtered: {why}"
    assert (got.count(b"HTTP/1.1"), wire.faults) == (1, [])


def test_answers_429_if_a_list_of_tools_exceeds_a_budget() -> None:
    wire = listing()
    (exchange,) = wire.layer.exchanges
    exchange.received.spend = lambda _, size: OverBudget("no more", 9) if size > 4 else None
    assert wire.server_sends(HELD % len(LIST) + LIST).startswith(b"HTTP/1.1 429")
    assert (exchange.outcome.reason, exchange.outcome.cause) == ("no more", "budget")


def test_trailers_do_not_end_a_list_of_tools() -> None:
    wire = listing()
    wire.server_sends(HELD % len(LIST) + LIST[:9])
    (stream,) = wire.layer._http.streams.values()
    assert isinstance(stream, StrictStream)
    assert list(stream.state_consume_response_body(ResponseTrailers(stream.stream_id, Headers()))) == []
    assert body_of(wire.server_sends(LIST[9:])) == b'{"result": {"tools": [{"name": "a"}]}}'


def test_cuts_an_event_stream_at_a_malformed_event() -> None:
    wire = listing()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b"data: " + LIST + b"\n\n"
    got = wire.server_sends(head + b"%x\r\n%s\r\n" % (len(event), event))
    assert got.endswith(b'data: {"result": {"tools": [{"name": "a"}]}}\n\n\r\n')
    assert wire.server_sends(b"9\r\ndata: x\n\n\r\n") == got
    assert wire.client in wire.cut


@pytest.mark.parametrize("protocol", [b"", b"h2"])
async def test_uses_a_connection_of_mitmproxy_if_the_server_does_not_choose_http1(
    stage: TwoKinds, protocol: bytes
) -> None:
    async with stage() as on:
        with chosen(protocol):
            client = await on.http2()
            number = client.send("/x")
            shared, own = await on.server(), await on.server()
            assert await on.get(reader=shared[0]) in (b"", b"reset")
            await on.get(b"\r\n\r\n", reader=own[0])
            own[1].write(OK)
            assert await client.answer(number) == ("200", b"ok")
            client.send("/y")
            third = await on.server()
            assert b"GET /y" in await on.get(b"\r\n\r\n", reader=third[0])
            assert len(on.asked) == 3


async def idle(on: Http2Stage) -> Http2Talk:
    """Leave an idle connection, to a server that closes it when it gets another request."""
    client, (reader, writer) = await on.answered_over_http2()
    assert len(on.pool) == 1
    reading = asyncio.create_task(reader.read(1))
    reading.add_done_callback(lambda _: writer.transport.abort())
    return client


@pytest.mark.usefixtures("http1")
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_a_request_is_repeated_if_a_used_connection_ends_without_a_response(stage: TwoKinds, method: str) -> None:
    async with stage() as on:
        client = await idle(on)
        number = client.send("/again", method=method)
        reader, writer = await on.server()
        assert f"{method} /again".encode() in await on.get(b"\r\n\r\n", reader=reader)
        writer.write(OK)
        assert await client.answer(number) == ("200", b"" if method == "HEAD" else b"ok")
        assert [how for how, *_ in on.notes.ended] == ["response"] * 2
        assert len(on.asked) == 2


@pytest.mark.usefixtures("http1")
@pytest.mark.parametrize("request_", [("DELETE", None), ("GET", b"hi"), ("POST", b"hi")])
async def test_does_not_repeat_requests_with_another_method_or_a_body(
    stage: TwoKinds, request_: tuple[str, bytes | None]
) -> None:
    method, body = request_
    async with stage() as on:
        client = await idle(on)
        length = [("content-length", str(len(body)))] if body else []
        status, text = await client.answer(client.send("/again", *length, method=method, body=body))
        assert (status, b"server closed connection" in text, len(on.asked)) == ("502", True, 1)


@pytest.mark.usefixtures("http1")
async def test_answers_502_if_the_server_cannot_be_reached_for_a_repeated_request(stage: TwoKinds) -> None:
    async with stage() as on:
        client = await idle(on)
        on.refusal = DialError(NotReached("nobody there"))
        status, text = await client.answer(client.send("/again"))
        assert (status, b"nobody there" in text) == ("502", True)


@pytest.mark.usefixtures("http1")
async def test_a_request_on_a_new_connection_is_not_repeated(stage: TwoKinds) -> None:
    async with stage() as on:
        client = await on.http2()
        number = client.send("/x")
        reader, writer = await on.server()
        await on.get(b"\r\n\r\n", reader=reader)
        writer.close()
        assert (await client.answer(number))[0] == "502"
        assert len(on.asked) == 1
