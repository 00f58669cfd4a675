import hashlib
import json
import zlib
from functools import partial

import pytest
from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Decision, Effect, Origin, parse_request
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import Denial, Page
from agent_sandbox.proxy.exchange.exchange import (
    MAX_COPY,
    NOT_DECIDED,
    Exchange,
    Meter,
    Outcome,
    OverBudget,
    OverBudgetError,
    open_exchange,
)
from agent_sandbox.proxy.exchange.tool_list import JsonFilter, Room, filtered
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.secrets.error_code import ErrorCode
from agent_sandbox.proxy.secrets.redaction import Echoes, Redactor
from agent_sandbox.proxy.secrets.unpacking import UnpackError, Unpacking
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import NotReached, Refused
from agent_sandbox.proxy.wire.message import Fields, RequestHead
from packing import whole
from table_tests import each

TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443)
HEAD = RequestHead(b"GET", b"/x?y", b"HTTP/1.1", ((b"Accept", b"application/json"),), b"", "b.test", 80, b"http")
REQUEST = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/x?y")
YES = Decision(effect=Effect.ALLOW, rule="policy.yaml:4", origin=None, reason="yes", max_body=10)


def opened(**changed: object) -> Exchange:
    return open_exchange(replace(HEAD, **changed), TUNNEL, started=1.0)


def allowed() -> Exchange:
    exchange = opened()
    exchange.allow(YES, REQUEST, HEAD)
    return exchange


def test_a_meter_counts_and_changes_nothing() -> None:
    meter = Meter()
    assert (meter(b"hello"), meter(b""), [*meter.rest()], meter.count) == (b"hello", b"", [], 5)


def test_a_meter_takes_bytes_up_to_its_limit() -> None:
    assert Meter(count=5).takes(10**9)
    assert [Meter(count=5, limit=10).takes(size) for size in (5, 6)] == [True, False]


def test_a_meter_redacts_an_injected_secret() -> None:
    meter = Meter(redactor=Redactor([b"hunter22"]))
    assert [meter(data) for data in (b"a hunt", b"", b"er22 b hunt")] == [b"a ", b"", b"******** b "]
    assert [*meter.rest()] == [b"hunt"]
    assert meter.count == len(b"a hunter22 b hunt")


def test_a_meter_copies_the_redacted_body_unless_it_is_too_large() -> None:
    meter = Meter(redactor=Redactor([b"hunter22"]), copied=bytearray())
    assert whole(meter, b"a hunter22 b hun") == bytes(meter.copied or b"") == b"a ******** b hun"
    list(meter.pieces(b"x" * MAX_COPY))
    assert meter.copied is None
    list(meter.pieces(b"x"))


def test_a_meter_copies_a_body_that_it_does_not_change() -> None:
    meter = Meter(copied=bytearray())
    assert whole(meter, b"a b") == bytes(meter.copied or b"") == b"a b"


def test_a_compressed_body_is_counted_compressed_and_redacted_after_decompression() -> None:
    meter = Meter(unpacking=Unpacking(b"deflate"), redactor=Redactor([b"hunter22"]))
    packed = zlib.compress(b"a hunter22 b")
    assert whole(meter, packed[:5], packed[5:]) == b"a ******** b"
    assert meter.count == len(packed)


def test_a_compressed_body_that_is_cut_short_is_an_error_unless_it_is_empty() -> None:
    meter = Meter(unpacking=Unpacking(b"deflate"), redactor=Redactor([b"hunter22"]))
    assert whole(meter, b"") == b""
    list(meter.pieces(zlib.compress(b"some text")[:-1]))
    with pytest.raises(UnpackError, match=r"^its compressed body is not complete\Z"):
        list(meter.rest())


def test_a_new_exchange_is_denied_and_names_the_request() -> None:
    exchange = opened()
    assert (exchange.outcome, exchange.forwarded, exchange.returned) == (NOT_DECIDED, None, None)
    assert (exchange.host, exchange.port, exchange.method, exchange.path) == ("a.test", 443, "GET", "/x")
    direct = open_exchange(HEAD, Tunnel(client="", carries=Carries.PROXY), started=0)
    assert (direct.host, direct.port) == ("b.test", 80)


def test_an_allowed_exchange_is_denied_again_when_it_is_aborted() -> None:
    exchange = allowed()
    assert (exchange.forwarded, exchange.sent.limit, exchange.allowed) == (HEAD, 10, True)
    exchange.written = exchange.held = True
    denial = exchange.denial("no more")
    exchange.abort(denial, cause="host")
    assert (exchange.forwarded, exchange.aborted) == (None, denial)
    assert (exchange.written, exchange.held) == (False, False)
    assert exchange.outcome == Outcome(Effect.DENY, "no more", "policy.yaml:4", "host")


def test_a_denial_names_the_request_and_becomes_the_answer() -> None:
    exchange = opened()
    denial = exchange.denial("no", status=418, rule="r", hint="do")
    assert denial == Denial(
        reason="no", status=418, host="a.test", method="GET", path="/x", rule="r", near_miss="", hint="do"
    )
    exchange.deny(denial, cause="rule")
    assert exchange.outcome == Outcome(Effect.DENY, "no", "r", "rule")
    assert exchange.answer
    assert (exchange.answer.status, json.loads(exchange.answer.body)["reason"]) == (418, "no")


def test_a_denial_has_no_body_for_head_and_closes_http1_after_a_400() -> None:
    denial = Denial(reason="x", status=400)
    rendered = opened(method=b"HEAD").render(denial)
    assert (rendered.status, rendered.body, rendered.fields[-1]) == (400, b"", (b"connection", b"close"))
    assert int(dict(rendered.fields)[b"content-length"]) > 0
    assert b"connection" not in dict(opened(version=b"HTTP/2.0").render(denial).fields)
    assert b"connection" not in dict(opened().render(replace(denial, status=403)).fields)


def test_an_answer_is_in_the_format_that_the_client_accepts() -> None:
    rendered = opened(fields=((b"accept", b"text/html"),)).render(Denial(reason="no"))
    assert dict(rendered.fields)[b"content-type"] == b"text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("why", "status", "outcome"),
    [
        (NotReached("gone"), 502, Outcome(Effect.ALLOW, "gone", "policy.yaml:4")),
        (Refused("loopback"), 403, Outcome(Effect.DENY, "loopback", "policy.yaml:4", "address")),
    ],
)
def test_an_unreachable_server_is_a_failure_and_a_refused_server_is_a_denial(
    why: NotReached, status: int, outcome: Outcome
) -> None:
    exchange = allowed()
    denial = exchange.failure(why)
    assert (denial.status, denial.reason, denial.host, denial.path) == (status, str(why), "a.test", "/x")
    assert exchange.outcome == outcome
    assert exchange.record(now=1).failed == (status == 502)


def test_a_failure_does_not_replace_a_denial() -> None:
    exchange = allowed()
    denial = exchange.denial("no more")
    exchange.abort(denial, cause="host")
    assert exchange.failure(NotReached("gone")) is denial
    assert exchange.outcome.reason == "no more"


def test_the_denial_of_a_large_body_names_the_limit_and_how_to_raise_it() -> None:
    denial = allowed().too_large()
    assert (denial.status, denial.reason, denial.hint) == (
        413,
        "the body is larger than the 10 bytes that policy.yaml:4 allows",
        "raise `max_body` at policy.yaml:4, then: agent-sandbox proxy reload",
    )


def test_a_request_that_was_not_read_is_denied_and_no_longer_held() -> None:
    exchange = opened()
    exchange.held = True
    assert exchange.not_read("too slow", status=408) == exchange.denial("too slow", status=408)
    assert (exchange.held, exchange.outcome.reason) == (False, "too slow")


def test_the_record_has_all_fields_of_an_exchange() -> None:
    exchange = allowed()
    exchange.scheme, exchange.tool, exchange.status, exchange.error = "https", "pip", 200, "gone"
    exchange.sent.count, exchange.received.count = 3, 4
    assert exchange.record(now=1.5) == AuditRecord(
        event=Event.REQUEST,
        decision=Effect.ALLOW,
        rule="policy.yaml:4",
        cause="",
        reason="yes; aborted: gone",
        scheme="https",
        host="a.test",
        port=443,
        method="GET",
        path="/x",
        status=200,
        bytes_in=4,
        bytes_out=3,
        duration_ms=500.0,
        client="10.0.0.3",
        tool="pip",
        headers="accept",
    )


def test_the_record_says_how_much_of_the_url_looks_encoded() -> None:
    exchange = allowed()
    assert exchange.request
    blob = hashlib.shake_256(b"x").hexdigest(100)
    exchange.request = replace(exchange.request, path=f"/{blob}")
    assert exchange.record(now=1.5).encoded == 200


def test_the_record_of_an_aborted_denial_keeps_the_reason() -> None:
    exchange = opened()
    exchange.deny(exchange.denial("no"))
    exchange.error = "gone"
    assert exchange.record(now=2.0).reason == "no"


def test_answer_here_is_recorded_as_allowed_and_forwards_nothing() -> None:
    exchange = opened()
    exchange.answer_here(Page(200, (), b"hello"), "our own page")
    assert (exchange.allowed, exchange.forwarded, exchange.outcome.reason) == (True, None, "our own page")
    assert exchange.answer == Page(200, (), b"hello")


def test_an_exchange_that_waits_for_a_person_can_get_a_grant() -> None:
    exchange = opened()
    assert (exchange.waits, exchange.grants) == (False, ())
    exchange.waiting = Waiting(leave=lambda: None)
    assert (exchange.waits, exchange.grants) == (True, ())
    rule = Rule(
        effect=Effect.ALLOW,
        conditions=Conditions(host=parse_host_pattern("a.test")),
        origin=Origin(file="grant", line=1, layer="grant"),
    )
    exchange.waiting.end("", grant=rule)
    assert (exchange.waits, exchange.grants) == (False, (rule,))


def test_refuse_data_denies_a_body_when_a_budget_is_used_up() -> None:
    exchange = allowed()
    assert exchange.spend("upload", 1) is None
    exchange.spend = lambda kind, size: OverBudget(f"{kind}: {size}", 9)
    denial = exchange.refuse_data(5)
    assert denial
    assert (denial.status, denial.reason, denial.rule, denial.retry_seconds) == (429, "upload: 5", "policy.yaml:4", 9)
    assert exchange.outcome == Outcome(Effect.DENY, "upload: 5", "policy.yaml:4", "budget")
    assert exchange.forwarded is None


def test_refuse_data_denies_a_body_over_the_limit_of_the_rule() -> None:
    exchange = allowed()
    assert exchange.refuse_data(10) is None
    denial = exchange.refuse_data(11)
    assert denial
    assert (denial.status, exchange.aborted) == (413, denial)


def test_a_response_over_a_budget_is_not_forwarded() -> None:
    meter = Meter(spend=lambda kind, size: OverBudget(f"{kind}: {size}", 9) if size > 3 else None)
    assert list(meter.pieces(b"abc")) == [b"abc"]
    with pytest.raises(OverBudgetError, match="download: 4"):
        list(meter.pieces(b"abcd"))


def test_a_list_of_tools_is_decompressed_redacted_and_filtered() -> None:
    meter = Meter(
        unpacking=Unpacking(b"deflate"),
        redactor=Redactor([b"hunter22"]),
        filters=(JsonFilter(partial(filtered, shows="a".__eq__), Room()),),
    )
    packed = zlib.compress(b'{"result": {"tools": [{"name": "a", "x": "hunter22"}, {"name": "b"}]}}')
    assert whole(meter, packed[:5], packed[5:]) == b'{"result": {"tools": [{"name": "a", "x": "********"}]}}'
    assert meter.count == len(packed)


TYPE, HTML = (b"content-type", b"application/json"), (b"content-type", b"text/html")
BR, GZIP = (b"content-encoding", b"br, gzip"), (b"content-encoding", b"gzip")
NO_FILTER = "its list of tools could not be filtered"


@each(
    ("echoes", "filters", "fields", "why"),
    [
        (False, False, (HTML, BR), ""),
        (True, False, (HTML,), ""),
        (True, False, (BR,), "it is compressed, so an echo of the injected secret could not be redacted"),
        (True, True, (TYPE, BR), "it is compressed, so an echo of the injected secret could not be redacted"),
        (False, True, (TYPE, BR), f"{NO_FILTER}: it is compressed"),
        (False, True, (HTML,), f"{NO_FILTER}: it is neither JSON nor an event stream"),
        (False, True, (TYPE,), ""),
    ],
)
def test_a_response_that_cannot_be_redacted_or_filtered_is_not_forwarded(
    *, echoes: bool, filters: bool, fields: Fields, why: str
) -> None:
    exchange = opened()
    exchange.echoes = Echoes([b"hunter22"] if echoes else [])
    exchange.shows_tool = bool if filters else None
    assert exchange.why_unforwardable(200, fields) == why


@each(("status", "fields", "refused"), [(400, (BR,), True), (400, (GZIP,), False), (200, (BR,), False)])
def test_an_error_that_cannot_be_searched_for_a_session_token_is_not_forwarded(
    status: int, fields: Fields, *, refused: bool
) -> None:
    exchange = opened()
    exchange.echoes, exchange.only_token = Echoes([b"hunter22"]), True
    why = "it is compressed, so an echo of the injected secret could not be redacted"
    assert exchange.why_unforwardable(status, fields) == (why if refused else "")


@each(("status", "scheme", "refused"), [(407, "http", True), (407, "https", False), (401, "http", False)])
def test_a_request_for_credentials_of_a_proxy_is_not_forwarded_over_plain_http(
    status: int, scheme: str, *, refused: bool
) -> None:
    exchange = opened()
    exchange.scheme = scheme
    why = "it asks for the credentials of a proxy (407), which a client would take for a request of this one"
    assert exchange.why_unforwardable(status, ()) == (why if refused else "")


def test_a_denial_of_an_mcp_message_repeats_its_id() -> None:
    exchange = opened()
    assert not exchange.denial("no").is_mcp
    exchange.mcp, exchange.mcp_id = "tools/call a", 5
    denial = exchange.denial("no")
    assert (denial.is_mcp, denial.mcp_id, exchange.record(now=1).mcp) == (True, 5, "tools/call a")


@pytest.mark.parametrize(("status", "body", "refuses"), [(401, b"", 1), (403, b"<Code>No</Code>", 1), (403, b"", 0)])
def test_a_server_refuses_a_secret_with_a_401_or_a_code(status: int, body: bytes, refuses: int) -> None:
    exchange = allowed()
    exchange.status = status
    assert exchange.refuses_secret is (status == 401)
    exchange.error_code = ErrorCode(("No",), ())
    exchange.error_code.feed(body)
    assert exchange.refuses_secret is bool(refuses)


def test_a_closed_body_frees_its_decoder_and_its_room() -> None:
    room = Room(100)
    whole, empty = (
        Meter(unpacking=Unpacking(b"deflate"), filters=(JsonFilter(partial(filtered, shows="a".__eq__), room),)),
        Meter(),
    )
    list(whole.pieces(zlib.compress(b" " * 60)))
    assert room.left == 40
    for meter in (whole, empty):
        meter.close()
    assert room.left == 100
    with pytest.raises(UnpackError):
        list(whole.pieces(b"x"))
