import asyncio
import gzip
import json
from collections import deque
from collections.abc import Callable
from typing import override

import pytest
from mitmproxy import http
from mitmproxy.http import Headers
from mitmproxy.proxy import events
from mitmproxy.proxy.layers.http._events import ResponseTrailers

from agent_sandbox.policy import Policy
from agent_sandbox.policy.http.graphql_body import MAX_BODY, TOO_LONG
from agent_sandbox.proxy.decide.enforcer import Enforcer
from agent_sandbox.proxy.decide.streamer import Streamer
from agent_sandbox.proxy.exchange.exchange import Exchange, OverBudget
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.flows import ExchangeOwner, FlowHooks
from agent_sandbox.proxy.mitm.http_layer import EVENT_BYTES, PolicyReplaced
from agent_sandbox.proxy.mitm.stream import StrictStream
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redaction import Echoes
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, NotReached, Refused
from http2_stage import Http2Stage, Http2Talk, chosen
from layer_harness import Deny, LetThrough, Wait, Wire, With, goaway, requests_at, server_end
from policy_texts import PolicyOf

type TwoKinds = Callable[..., Http2Stage]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"


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


def reason(got: bytes) -> str:
    told: str = json.loads(got[4:])["reason"]
    return told


def upload(wire: Wire, body: bytes = b"half", *fields: tuple[str, str]) -> int:
    """Let the client begin a request with a body; return its stream."""
    return wire.ask("/x", *fields, method="POST", body=body, ends=False)


def answered(wire: Wire, answer: bytes, number: int = 1) -> bytes:
    """Let the server answer; return what the client got."""
    wire.server_sends(answer)
    return wire.got(number)


def test_sends_a_denial_before_the_body_arrives() -> None:
    wire = Wire(Deny())
    number = upload(wire)
    assert reason(wire.got()) == "no"
    wire.more(number, b"x" * 10, ends=True)
    wire.ask()
    assert (wire.got(3)[:4], wire.servers) == (b"403 ", [])


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("why", "status"),
    [
        (NotReached("gone"), b"502"),
        (Refused("inside"), b"403"),
        ("Certificate verify failed", b"502"),  # as mitmproxy's TLS layer says it
    ],
)
def test_answers_with_the_reason_if_the_server_is_not_reached_or_refused(
    why: NotReached, status: bytes, *, ends: bool
) -> None:
    addon = Stream()
    wire = Wire(addon)
    wire.refuse_dial = why
    wire.ask(method="POST", ends=ends)
    assert wire.got().startswith(status)
    assert reason(wire.got()) == str(why)
    assert addon.ended == [status.decode()]


def test_the_next_request_retries_the_server_connection() -> None:
    wire = Wire(Stream())
    wire.refuse_dial = NotReached("gone")
    wire.ask()
    wire.refuse_dial = None
    wire.ask()
    assert answered(wire, OK, 3) == b"200 ok"


def test_answers_502_to_a_malformed_response_and_closes_the_server() -> None:
    wire = Wire(Stream())
    wire.ask()
    got = answered(wire, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert got.startswith(b"502")
    assert reason(got) == "malformed response from the server: both Content-Length and Transfer-Encoding"
    assert wire.servers[0] in wire.closed


def test_answers_502_if_the_server_closes_without_a_response() -> None:
    addon = Stream()
    wire = Wire(addon)
    wire.ask()
    wire.closes(wire.servers[0])
    assert reason(wire.got()) == "server closed connection"
    assert addon.ended == ["502"]


def test_runs_an_end_hook_once_if_the_client_leaves_within_its_request() -> None:
    addon = Stream()
    wire = Wire(addon)
    upload(wire)
    wire.closes(wire.client)
    assert len(addon.ended) == 1


@pytest.mark.parametrize(
    ("method", "fields", "why"),
    [
        ("CONNECT", [], "CONNECT is valid only as the first request to the proxy"),
        ("GET", [("content-length", "x")], "invalid content-length header: b'x'"),
    ],
)
def test_does_not_forward_an_http2_connect_or_an_invalid_content_length(
    method: str, fields: list[tuple[str, str]], why: str
) -> None:
    addon = Stream()
    wire = Wire(addon)
    wire.ask("/x", *fields, method=method)
    if method == "CONNECT":
        assert addon.ended == ["400"]
        assert why.encode() in wire.got()
    assert wire.servers == []


class Stage:
    """A wire that is decided by a policy, which is replaced by one that allows nothing of it."""

    def __init__(self, policy: PolicyOf, *, allowed: str = "a.test") -> None:
        old = policy(f"domains: [{allowed}]")
        self.revision = PolicyTransition(old=old, new=policy("domains: [b.test]"))
        self.ended = Stream()
        self.wire = Wire(Enforcer(lambda: old, clock=lambda: 0.0), Streamer(), self.ended)

    def replace(self, revision: PolicyTransition | None = None) -> int:
        """Replace it; return how many requests that broke off."""
        event = PolicyReplaced(revision or self.revision)
        self.wire.feed(event)
        return event.ended


NO_MORE = "the policy was reloaded: no rule allows host a.test"


def test_a_reload_denies_a_request_that_waits_for_its_response(policy: PolicyOf) -> None:
    stage = Stage(policy)
    stage.wire.ask()
    assert stage.replace() == 1
    assert stage.wire.got().startswith(b"403")
    assert reason(stage.wire.got()) == NO_MORE
    assert (stage.ended.ended, stage.wire.reset) == (["403"], stage.wire.servers)
    assert stage.replace() == 0


def test_a_reload_does_not_end_a_request_that_is_still_allowed(policy: PolicyOf) -> None:
    stage = Stage(policy)
    stage.wire.ask()
    assert stage.replace(PolicyTransition(old=stage.revision.new, new=stage.revision.old)) == 0
    assert answered(stage.wire, OK) == b"200 ok"


def test_a_reload_cuts_an_upload_that_is_no_longer_allowed(policy: PolicyOf) -> None:
    stage = Stage(policy)
    number = upload(stage.wire)
    assert stage.replace() == 1
    assert (reason(stage.wire.got()), stage.wire.reset) == (NO_MORE, stage.wire.servers)
    stage.wire.more(number, b" more ")
    assert (reason(stage.wire.got()), stage.wire.to_server.endswith(b"half\r\n")) == (NO_MORE, True)


def test_a_reload_cuts_a_response_that_is_no_longer_allowed(policy: PolicyOf) -> None:
    stage = Stage(policy)
    stage.wire.ask()
    stage.wire.server_sends(HALF)
    assert stage.replace() == 1
    assert (stage.wire.got(), stage.wire.client in stage.wire.closed) == (b"200 reset half", False)
    assert (stage.ended.ended, stage.wire.reset) == ([NO_MORE], stage.wire.servers)


CHUNKED_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [OK, CHUNKED_OK])
@pytest.mark.parametrize("closes", [False, True])
def test_sends_an_early_response_completely_and_drops_the_rest_of_the_request(answer: bytes, *, closes: bool) -> None:
    stream = Stream()
    wire = Wire(stream)
    number = upload(wire)
    assert answered(wire, answer) == b"200 ok"
    assert (wire.reset, wire.layer.idle) == (wire.servers, True)
    if closes:
        wire.closes(wire.servers[0])
    wire.more(number, b"rest", ends=True)
    assert wire.to_server.endswith(b"\r\n\r\n4\r\nhalf\r\n")
    wire.ask()
    assert answered(wire, OK, 3) == b"200 ok"
    assert (stream.ended, wire.client in wire.closed, len(wire.servers)) == (["200", "200"], False, 2)


def test_resets_the_server_if_the_client_cancels_after_an_early_response() -> None:
    stream = Stream()
    wire = Wire(stream)
    number = wire.ask(method="POST", ends=False)
    assert answered(wire, OK) == b"200 ok"
    wire.h2.reset_stream(number)
    wire.flush()
    assert (stream.ended, wire.reset, wire.layer.idle) == (["200"], wire.servers, True)


def test_a_request_that_a_reload_denies_while_connecting_is_not_sent(policy: PolicyOf) -> None:
    stage = Stage(policy)
    stage.wire.patient = True
    stage.wire.ask()
    assert stage.wire.to_server == b""
    assert stage.replace() == 1
    assert reason(stage.wire.got()) == NO_MORE
    stage.wire.reached()
    assert stage.wire.to_server == b""
    assert stage.ended.ended == ["403"]


def test_a_request_that_a_reload_denies_gets_403_even_if_its_server_is_not_reached(policy: PolicyOf) -> None:
    stage = Stage(policy)
    stage.wire.patient = True
    stage.wire.ask()
    stage.replace()
    stage.wire.refuse_dial = NotReached("gone")
    stage.wire.reached()
    assert stage.wire.got().startswith(b"403")
    assert (reason(stage.wire.got()), stage.ended.ended) == (NO_MORE, ["403"])


def test_a_reload_ends_no_request_that_no_policy_decided() -> None:
    wire = Wire(Stream())
    wire.ask()
    event = PolicyReplaced(PolicyTransition(old=Policy.deny_all(""), new=Policy.deny_all("")))
    wire.feed(event)
    assert event.ended == 0


TEN = "{host: a.test, rules: [{methods: [POST], max_body: 10}]}"
TOO_LARGE = "the body is larger than the 10 bytes that policy.yaml:2 allows"


@pytest.mark.parametrize("pieces", [[b"hello", b"worlds"], [b"hello worlds"], [b"x"] * 11])
def test_answers_413_to_a_body_that_exceeds_max_body(policy: PolicyOf, pieces: list[bytes]) -> None:
    stage = Stage(policy, allowed=TEN)
    number = upload(stage.wire, pieces[0])
    for piece in pieces[1:]:
        stage.wire.more(number, piece)
    assert stage.wire.got().startswith(b"413")
    assert stage.wire.streams.heads[number]["x-agent-sandbox"] == "blocked"
    assert reason(stage.wire.got()) == TOO_LARGE
    assert not stage.wire.to_server.endswith(b"0\r\n\r\n")
    assert (stage.ended.ended, stage.wire.reset) == (["413"], stage.wire.servers)


def test_forwards_a_body_of_exactly_max_body(policy: PolicyOf) -> None:
    stage = Stage(policy, allowed=TEN)
    stage.wire.more(upload(stage.wire, b"hello"), b"world", ends=True)
    assert answered(stage.wire, OK) == b"200 ok"
    assert stage.ended.ended == ["200"]


def test_cuts_a_response_whose_request_body_exceeds_max_body(policy: PolicyOf) -> None:
    stage = Stage(policy, allowed=TEN)
    number = upload(stage.wire, b"hello")
    stage.wire.server_sends(HALF)
    stage.wire.more(number, b"worlds")
    assert stage.wire.got() == b"200 reset half"
    assert (stage.ended.ended, stage.wire.reset) == ([TOO_LARGE], stage.wire.servers)


def test_applies_the_max_body_of_a_new_policy_to_requests_under_way(policy: PolicyOf) -> None:
    stage = Stage(policy)
    number = upload(stage.wire, b"hello")
    assert stage.replace(PolicyTransition(old=stage.revision.new, new=policy(f"domains: [{TEN}]"))) == 0
    stage.wire.more(number, b"worlds")
    assert reason(stage.wire.got()) == TOO_LARGE


ASKING = """
domains: [{host: a.test, rules: [{path: {exact: /graphql}, graphql: {query: [viewer]}}]}]
"""
READING = b'{"query": "{viewer{login}}"}'
WRITING = b'{"query": "mutation{deleteRef{id}}"}'
JSON = ("content-type", "application/json")


class Asked:
    """A wire whose bodies are read before they are decided."""

    def __init__(self, policy: PolicyOf) -> None:
        current, self.ended = policy(ASKING), Stream()
        self.wire = Wire(Enforcer(lambda: current, clock=lambda: 0.0), Streamer(), self.ended)

    def ask(self, *fields: tuple[str, str], body: bytes | None = None, ends: bool = False) -> int:
        """Let the client send a query, or its beginning; return its stream."""
        return self.wire.ask("/graphql", JSON, *fields, method="POST", body=body, ends=ends)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("length", [[("content-length", str(len(READING)))], []])
def test_holds_a_body_until_the_decision_and_forwards_it_unchanged(
    policy: PolicyOf, size: int, length: list[tuple[str, str]]
) -> None:
    asked = Asked(policy)
    wire, number = asked.wire, asked.ask(*length)
    for start in range(0, len(READING), size):
        assert wire.servers == []
        wire.more(number, READING[start : start + size], ends=start + size >= len(READING))
    framed = READING if length else b"%x\r\n%s\r\n0\r\n\r\n" % (len(READING), READING)
    assert wire.to_server.partition(b"\r\n\r\n")[2] == framed
    assert answered(wire, OK) == b"200 ok"


def test_does_not_forward_a_denied_body_and_decides_the_next_request_afresh(policy: PolicyOf) -> None:
    asked = Asked(policy)
    asked.ask(body=WRITING, ends=True)
    assert asked.wire.got().startswith(b"403")
    assert asked.wire.servers == []
    asked.ask(body=READING, ends=True)
    assert asked.wire.to_server.count(b"POST") == 1
    assert asked.ended.ended == ["403"]


def test_answers_100_continue_to_a_client_whose_body_is_needed_for_the_decision(policy: PolicyOf) -> None:
    asked = Asked(policy)
    number = asked.ask(("expect", "100-continue"))
    assert asked.wire.to_client.endswith(b"\x03100")  # a frame with nothing but this status
    asked.wire.more(number, READING, ends=True)
    assert b"expect" not in asked.wire.to_server.lower()
    assert READING in asked.wire.to_server


def test_answers_413_if_a_held_body_exceeds_the_limit(policy: PolicyOf) -> None:
    asked = Asked(policy)
    number = asked.ask()
    frame = bytes(2**14)
    for _ in range(MAX_BODY // len(frame)):
        asked.wire.more(number, frame)
        assert asked.wire.got() == b"..."
    asked.wire.more(number, b"x")
    assert asked.wire.got().startswith(b"413")
    assert reason(asked.wire.got()) == TOO_LONG
    asked.wire.more(number, frame, ends=True)
    assert (asked.ended.ended, asked.wire.servers) == (["413"], [])


def test_answers_408_if_a_held_body_does_not_arrive_in_time(policy: PolicyOf) -> None:
    asked = Asked(policy)
    number = asked.ask(body=READING)
    (patience,) = [wakeup for wakeup in asked.wire.wakeups if wakeup.delay == Limits().body_seconds]
    asked.wire.feed(events.Wakeup(patience))
    assert asked.wire.got().startswith(b"408")
    assert reason(asked.wire.got()) == "the request body did not arrive in time"
    asked.wire.more(number, bytes(100))
    assert (asked.ended.ended, asked.wire.servers) == (["408"], [])


def test_ignores_the_body_timer_after_the_body_has_arrived(policy: PolicyOf) -> None:
    asked = Asked(policy)
    asked.ask(body=READING, ends=True)
    (patience,) = [wakeup for wakeup in asked.wire.wakeups if wakeup.delay == Limits().body_seconds]
    asked.wire.feed(events.Wakeup(patience))
    assert answered(asked.wire, OK) == b"200 ok"


def test_releases_a_held_body_when_it_has_been_forwarded(policy: PolicyOf) -> None:
    asked = Asked(policy)
    asked.ask(body=READING, ends=True)
    (stream,) = asked.wire.layer._http.streams.values()
    assert isinstance(stream, StrictStream)
    exchange = stream.exchange
    assert exchange
    assert (exchange.held, exchange.body, exchange.sent.count) == (False, b"", len(READING))
    assert stream.flow
    assert stream.flow.request.data.content is None


def test_runs_an_end_hook_once_if_the_client_leaves_within_a_held_body(policy: PolicyOf) -> None:
    asked = Asked(policy)
    asked.ask(body=READING)
    asked.wire.closes(asked.wire.client)
    assert (len(asked.ended.ended), asked.wire.servers) == (1, [])


def test_does_not_keep_a_stream_that_was_answered_until_its_timer_fires(policy: PolicyOf) -> None:
    asked = Asked(policy)
    asked.ask(body=READING, ends=True)
    asked.ask(body=WRITING, ends=True)
    assert asked.wire.to_server.count(b"POST /graphql") == 1
    assert asked.ended.ended == ["403"]
    waiting = asked.wire.layer._http.command_sources.values()
    assert {stream.stream_id for stream in waiting if isinstance(stream, StrictStream)} <= {1}


def test_answers_failed_connections_of_requests_without_an_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    def let_through(_: FlowHooks, flow: http.HTTPFlow, __: ExchangeOwner) -> None:
        flow.request.stream = True

    monkeypatch.setattr(FlowHooks, "requestheaders", let_through)
    wire = Wire()
    wire.refuse_dial = NotReached("gone")
    wire.ask()
    assert wire.got().startswith(b"502")


FILLED = With(echoes=Echoes([b"hunter22"]))


def filled(method: str = "GET") -> Wire:
    """Return a wire on which a request with a secret waits for its response."""
    wire = Wire(FILLED, Streamer())
    wire.ask(method=method)
    return wire


def test_malformed_body_of_a_rejected_response_in_the_same_packet_is_dropped() -> None:
    wire = filled()
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, br\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = answered(wire, packed + b"not a chunk\r\n")
    assert (got[:5], wire.faults) == (b"502 {", [])


class FilledThere(LetThrough):
    """Has put a secret into some requests."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Put it in where it belongs."""
        super().requestheaders(exchange, tunnel)
        exchange.echoes = Echoes([b"hunter22"] if exchange.path == "/secret" else [])


def test_requests_with_and_without_a_secret_use_different_server_connections() -> None:
    wire = Wire(FilledThere())
    wire.server_alpn = b"h2"
    for path, servers in (("/secret", 1), ("/x", 2), ("/secret", 2), ("/x", 2)):
        wire.ask(path)
        assert len(wire.servers) == servers
    secret, other = (wire.sent[server].count(b"/secret") for server in wire.servers)
    assert (bool(secret), other) == (True, 0)


def test_notices_that_the_client_leaves_while_its_request_waits() -> None:
    addon, ends = Wait(), Stream()
    wire = Wire(addon, ends)
    wire.ask()
    wire.feed(events.ConnectionClosed(wire.client))
    (exchange,) = addon.left
    assert (exchange.waits, ends.ended) == (True, [])
    assert exchange.waiting
    exchange.waiting.end("the client left")
    wire.feed(wire.resumed.pop())
    assert (wire.servers, len(ends.ended)) == ([], 1)


def test_redacts_an_echo_that_spans_two_chunks_and_forwards_what_only_begins_like_one() -> None:
    wire = filled()
    assert answered(wire, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhunt\r\n") == b"200 ..."
    assert answered(wire, b"3\r\ning\r\n0\r\n\r\n") == b"200 hunting"


@pytest.mark.parametrize(
    "packed",
    [b"not compressed", gzip.compress(b"x" * 99)[:-9], gzip.compress(bytes(99 << 20))],
    ids=["not compressed", "cut off", "too large"],
)
def test_cuts_a_response_that_cannot_be_decompressed(packed: bytes) -> None:
    wire = filled()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    got = answered(wire, head + packed)
    assert got.startswith(b"200 reset")
    assert len(got) < 3 << 20


def test_forwards_the_compressed_response_to_a_head_request_unchanged() -> None:
    wire = filled("HEAD")
    assert answered(wire, b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n") == b"200 "
    assert wire.streams.heads[1] == {":status": "200", "content-encoding": "gzip", "content-length": "5"}


def test_cuts_a_response_when_a_budget_is_used_up() -> None:
    wire = Wire()
    wire.ask()
    (exchange,) = wire.layer.exchanges
    exchange.received.spend = lambda _, size: OverBudget("no more", 9) if size > 4 else None
    wire.server_sends(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf")
    assert answered(wire, b"and more") == b"200 reset half"
    assert (exchange.outcome.reason, exchange.outcome.cause) == ("no more", "budget")


LIST = b'{"result": {"tools": [{"name": "a"}, {"name": "b"}]}}'
SHOWN = b'200 {"result": {"tools": [{"name": "a"}]}}'
HELD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


LISTS = With(shows_tool="a".__eq__)


def listing() -> Wire:
    wire = Wire(LISTS, Streamer())
    wire.ask()
    return wire


def test_filters_and_sends_a_list_of_tools_when_it_is_complete() -> None:
    wire = listing()
    assert answered(wire, HELD % len(LIST) + LIST[:9]) == b"..."
    assert answered(wire, LIST[9:]) == SHOWN
    assert wire.faults == []


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def busy(*addons: object) -> tuple[Wire, Stream]:
    """Return a wire on which a response with a list of tools waits for its turn, and how its exchange ends."""
    ended = Stream()
    wire = Wire(LISTS, *addons, Streamer(), ended)
    wire.ask()
    wire.is_busy = True
    wire.server_sends(EVENTS + b"data: %s\n\n" % LIST)
    assert len(wire.turns) == 1
    return wire, ended


def test_a_response_is_filtered_when_it_is_its_turn() -> None:
    wire, ended = busy()
    wire.server_sends(b": more\n\n" * 100)
    wire.closes(wire.servers[0])
    assert (wire.got(), wire.layer.held(to_client=True), wire.layer.held(to_client=False)) == (
        b"200 ...",
        800 + EVENT_BYTES,
        0,
    )
    wire.is_busy = False
    wire.feed(wire.turns.popleft())
    shown = b'data: {"result": {"tools": [{"name": "a"}]}}\n\n'
    assert (wire.got(), wire.layer.held(to_client=True)) == (b"200 " + shown + b": more\n\n" * 100, 0)
    assert (ended.ended, wire.faults) == (["200"], [])


def test_a_stream_that_the_client_resets_gets_no_turn() -> None:
    wire, ended = busy()
    wire.server_sends(b": more\n\n")
    wire.closes(wire.servers[0])
    wire.h2.reset_stream(1)
    wire.flush()
    assert (wire.layer.idle, len(ended.ended), ended.ended[0] != "200") == (True, 1, True)
    wire.is_busy = False
    wire.feed(wire.turns.popleft())
    assert (wire.turns, wire.faults) == (deque(), [])
    assert wire.layer._http.command_sources == {}


def test_a_response_that_a_new_policy_denies_gets_no_turn(policy: PolicyOf) -> None:
    old, new = policy("domains: [a.test]"), policy("domains: []")
    wire, ended = busy(Enforcer(lambda: old, clock=lambda: 0.0))
    event = PolicyReplaced(PolicyTransition(old=old, new=new))
    wire.feed(event)
    assert (event.ended, wire.layer.idle, len(ended.ended)) == (1, True, 1)
    assert wire.got() == b"200 reset "
    wire.is_busy = False
    wire.feed(wire.turns.popleft())
    assert (wire.got(), wire.faults) == (b"200 reset ", [])


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
    got = answered(wire, answer)
    assert got.startswith(b"502")
    assert reason(got) == f"the server's response cannot be forwarded: its list of tools could not be filtered: {why}"
    assert wire.faults == []


def test_answers_429_if_a_list_of_tools_exceeds_a_budget() -> None:
    wire = listing()
    (exchange,) = wire.layer.exchanges
    exchange.received.spend = lambda _, size: OverBudget("no more", 9) if size > 4 else None
    assert answered(wire, HELD % len(LIST) + LIST).startswith(b"429")
    assert (exchange.outcome.reason, exchange.outcome.cause) == ("no more", "budget")


def test_trailers_do_not_end_a_list_of_tools() -> None:
    wire = listing()
    wire.server_sends(HELD % len(LIST) + LIST[:9])
    (stream,) = wire.layer._http.streams.values()
    assert isinstance(stream, StrictStream)
    assert list(stream.state_consume_response_body(ResponseTrailers(stream.stream_id, Headers()))) == []
    assert answered(wire, LIST[9:]) == SHOWN


def test_cuts_an_event_stream_at_a_malformed_event() -> None:
    wire = listing()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b"data: " + LIST + b"\n\n"
    shown = b'data: {"result": {"tools": [{"name": "a"}]}}\n\n'
    assert answered(wire, head + b"%x\r\n%s\r\n" % (len(event), event)) == b"200 " + shown + b"..."
    assert answered(wire, b"9\r\ndata: x\n\n\r\n") == b"200 reset " + shown


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


def http2(wire: Wire) -> Wire:
    """Have the servers of a wire speak HTTP/2."""
    wire.server_alpn = b"h2"
    return wire


def test_an_upload_whose_first_part_was_not_processed_goes_on_after_it_was_sent_again() -> None:
    stream = Stream()
    wire = http2(Wire(stream))
    number = upload(wire, b"one ")
    wire.more(number, b"two ")
    wire.patient = True
    wire.server_sends(goaway(0))
    wire.more(number, b"three ")
    wire.reached()
    wire.more(number, b"four", ends=True)
    assert (requests_at(wire, 0), requests_at(wire)) == ([b"POST /x one two ..."], [b"POST /x one two three four"])
    assert (stream.ended, wire.closed) == ([], [wire.servers[0]])
    end = server_end(wire)
    end.send_headers(1, [(":status", "204")], end_stream=True)
    assert answered(wire, end.data_to_send()) == b"204 "
    assert stream.ended == ["204"]


def test_an_upload_without_data_so_far_is_sent_again() -> None:
    wire = http2(Wire())
    number = wire.ask(method="POST", ends=False)
    wire.server_sends(goaway(0))
    wire.more(number, b"all", ends=True)
    assert (requests_at(wire, 0), requests_at(wire)) == ([b"POST /x ..."], [b"POST /x all"])


def test_an_empty_frame_does_not_end_the_search_of_a_response() -> None:
    wire = http2(Wire(FILLED, Streamer()))
    wire.ask()
    end = server_end(wire)
    end.send_headers(1, [(":status", "200")])
    for data in (b"a hunt", b"", b"er22 b"):
        end.send_data(1, data)
        wire.server_sends(end.data_to_send())
    end.end_stream(1)
    assert answered(wire, end.data_to_send()) == b"200 a ******** b"


def test_an_unprocessed_request_with_a_secret_is_not_sent_again_after_a_reload(policy: PolicyOf) -> None:
    wire, same = http2(Wire(FILLED, Streamer())), policy("domains: [a.test]")
    wire.ask()
    wire.feed(PolicyReplaced(PolicyTransition(old=same, new=same)))
    wire.server_sends(goaway(0))
    assert reason(wire.got()).endswith("the proxy did not keep it, because of its size or a reload; try again")
    assert len(wire.servers) == 1


@pytest.mark.parametrize("ends", [True, False])
def test_an_unprocessed_request_gets_502_if_its_body_was_not_kept(*, ends: bool) -> None:
    stream = Stream()
    wire = http2(Wire(stream))
    number = wire.ask(method="POST", body=b"large", ends=ends)
    wire.layer.limit_copies(4)
    if not ends:
        wire.more(number, b"x")
    wire.server_sends(goaway(0))
    assert reason(wire.got()) == (
        "the request was not processed: the server ended the HTTP/2 connection (GOAWAY, NO_ERROR); "
        "the proxy did not keep it, because of its size or a reload; try again"
    )
    if not ends:
        wire.more(number, b"y", ends=True)
    assert (stream.ended, len(wire.servers), wire.layer.idle) == (["502"], 1, True)


def test_an_unprocessed_request_is_sent_again_only_once() -> None:
    stream = Stream()
    wire = http2(Wire(stream))
    wire.ask(method="DELETE")
    for _ in range(2):
        assert stream.ended == []
        wire.server_sends(goaway(0))
    assert reason(wire.got()) == (
        "the request was not processed: the server ended the HTTP/2 connection (GOAWAY, NO_ERROR); "
        "the proxy had already sent it a second time; try again later"
    )
    assert (stream.ended, requests_at(wire, 0), requests_at(wire, 1)) == (["502"], *[[b"DELETE /x "]] * 2)


def test_a_request_is_not_sent_again_after_its_response_has_begun() -> None:
    stream = Stream()
    wire = http2(Wire(stream))
    wire.ask()
    end = server_end(wire)
    end.send_headers(1, [(":status", "200")])
    wire.server_sends(end.data_to_send() + goaway(0))
    assert (wire.got(), len(wire.servers)) == (b"200 reset ", 1)
    assert stream.ended == ["the request was not processed: the server ended the HTTP/2 connection (GOAWAY, NO_ERROR)"]


def test_a_request_that_a_reload_denies_is_not_sent_again(policy: PolicyOf) -> None:
    stage = Stage(policy)
    wire = http2(stage.wire)
    wire.ask(method="POST", body=b"body")
    wire.patient = True
    wire.server_sends(goaway(0))
    assert stage.replace() == 1
    assert reason(wire.got()) == NO_MORE
    wire.reached()
    assert (requests_at(wire), stage.ended.ended) == ([], ["403"])


def test_a_body_that_a_reload_no_longer_allows_is_not_sent_again(policy: PolicyOf) -> None:
    stage = Stage(policy)
    wire = http2(stage.wire)
    wire.ask(method="POST", body=b"eleven bytes"[:11])
    wire.patient = True
    wire.server_sends(goaway(0))
    assert stage.replace(PolicyTransition(old=stage.revision.old, new=policy(f"domains: [{TEN}]"))) == 0
    wire.reached()
    assert reason(wire.got()) == TOO_LARGE
    assert (requests_at(wire), stage.ended.ended) == ([], ["413"])


def test_an_upload_goes_on_after_its_server_has_said_goodbye() -> None:
    wire = http2(Wire())
    number = upload(wire, b"one ")
    wire.server_sends(goaway(1))
    wire.more(number, b"two", ends=True)
    assert (requests_at(wire), wire.closed) == ([b"POST /x one two"], [])
    end = server_end(wire)
    end.send_headers(1, [(":status", "204")], end_stream=True)
    assert answered(wire, end.data_to_send()) == b"204 "
    assert wire.closed == wire.servers


def test_an_early_response_ends_the_connection_of_a_server_that_has_said_goodbye() -> None:
    wire = http2(Wire())
    upload(wire)
    end = server_end(wire)
    end.send_headers(1, [(":status", "204")], end_stream=True)
    assert answered(wire, goaway(1) + end.data_to_send()) == b"204 "
    assert (requests_at(wire), wire.closed) == ([b"POST /x half... reset"], wire.servers)


def test_a_client_that_leaves_while_its_request_is_sent_again_ends_it_on_both_sides() -> None:
    stream = Stream()
    wire = http2(Wire(stream))
    number = wire.ask(method="POST", body=b"body")
    wire.patient = True
    wire.server_sends(goaway(0))
    wire.h2.reset_stream(number)
    wire.flush()
    wire.reached()
    assert (requests_at(wire), len(stream.ended), wire.layer.idle) == ([b"POST /x body reset"], 1, True)


def test_reports_a_server_that_is_not_reached_again() -> None:
    wire = http2(Wire(Stream()))
    number = upload(wire)
    wire.refuse_dial = NotReached("gone")
    wire.server_sends(goaway(0))
    wire.more(number, b"rest", ends=True)
    assert (reason(wire.got()), len(wire.servers)) == ("gone", 1)


def test_a_body_that_was_held_for_the_decision_is_sent_again(policy: PolicyOf) -> None:
    asked = Asked(policy)
    wire = http2(asked.wire)
    asked.ask(body=READING, ends=True)
    wire.server_sends(goaway(0))
    assert requests_at(wire, 0) == requests_at(wire, 1) == [b"POST /graphql " + READING]
    (exchange,) = wire.layer.exchanges
    assert (exchange.sent.count, asked.ended.ended) == (len(READING), [])
