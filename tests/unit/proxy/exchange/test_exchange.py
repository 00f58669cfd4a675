from __future__ import annotations

from mitmproxy.test import tflow

from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.exchange.exchange import (
    Meter,
    answer,
    exchange_of,
    failure,
    mark_aborted,
    not_read,
    open_exchange,
    too_large,
)
from agent_sandbox.proxy.secrets.redaction import Redactor
from agent_sandbox.proxy.upstream.dialler import NotReached, Refused


def test_a_meter_counts_and_changes_nothing() -> None:
    meter = Meter()
    assert (meter(b"hello"), meter(b""), meter.count) == (b"hello", b"", 5)


def test_a_ledger_begins_as_a_denial_and_stays_with_its_flow() -> None:
    flow = tflow.tflow()
    assert exchange_of(flow) is None
    exchange = open_exchange(flow, client="10.0.0.3", started=1.0)
    assert exchange_of(flow) is exchange
    assert (exchange.line.decision, exchange.line.client, exchange.started) == ("deny", "10.0.0.3", 1.0)


def test_an_answer_has_no_body_for_head_and_closes_after_doubt() -> None:
    flow = tflow.tflow()
    flow.request.method = "HEAD"
    got = answer(flow, Denial(reason="x", status=400))
    assert (got.status_code, got.content, got.headers["connection"]) == (400, b"", "close")
    assert int(got.headers["content-length"]) > 0
    flow.request.http_version = "HTTP/2.0"
    assert "connection" not in answer(flow, Denial(reason="x", status=400)).headers


def test_a_failure_is_a_502_of_an_allowed_request() -> None:
    flow = tflow.tflow()
    exchange = open_exchange(flow, client="", started=0)
    assert failure(flow, NotReached("gone")).status_code == 502
    assert (exchange.line.decision, exchange.line.cause, exchange.line.reason) == ("allow", "", "gone")


def test_a_refused_address_is_a_denial() -> None:
    flow = tflow.tflow()
    exchange = open_exchange(flow, client="", started=0)
    assert failure(flow, Refused("loopback")).status_code == 403
    assert (exchange.line.decision, exchange.line.cause, exchange.line.reason) == ("deny", "address", "loopback")


def test_a_failure_of_a_flow_that_nobody_knows_is_answered_too() -> None:
    assert failure(tflow.tflow(), NotReached("gone")).status_code == 502


def test_what_is_broken_off_is_a_denial_and_another_line() -> None:
    exchange = open_exchange(tflow.tflow(), client="", started=0)
    exchange.written, exchange.line.decision = True, "allow"
    denial = Denial(reason="no more")
    mark_aborted(exchange, denial, cause="host")
    assert (exchange.aborted, exchange.written) == (denial, False)
    assert (exchange.line.decision, exchange.line.reason, exchange.line.cause) == ("deny", "no more", "host")


def test_a_failure_takes_nothing_back_of_a_denial() -> None:
    flow = tflow.tflow()
    exchange = open_exchange(flow, client="", started=0)
    mark_aborted(exchange, Denial(reason="no more"), cause="host")
    assert failure(flow, NotReached("gone")).status_code == 403
    assert (exchange.line.decision, exchange.line.reason, exchange.line.cause) == ("deny", "no more", "host")


def test_a_meter_takes_as_much_as_it_may() -> None:
    assert Meter(count=5).takes(10**9)
    assert [Meter(count=5, limit=10).takes(size) for size in (5, 6)] == [True, False]


def test_a_body_that_is_too_large_is_told_with_what_would_allow_it() -> None:
    exchange = open_exchange(tflow.tflow(), client="", started=0)
    exchange.sent.limit, exchange.line.rule = 10, "policy.yaml:4"
    denial = too_large(exchange)
    assert (denial.status, denial.reason, denial.hint) == (
        413,
        "the body is larger than the 10 bytes that policy.yaml:4 allows",
        "raise `max_body` at policy.yaml:4, then: agent-sandbox proxy reload",
    )


def test_what_was_not_read_is_denied_and_held_no_longer() -> None:
    exchange = open_exchange(tflow.tflow(), client="", started=0)
    exchange.held, exchange.line.host = True, "a.test"
    denial = not_read(exchange, "too slow", status=408)
    assert denial == Denial(reason="too slow", status=408, host="a.test")
    assert (exchange.held, exchange.line.reason) == (False, "too slow")


def test_what_is_passed_on_is_looked_through_where_a_secret_was_put_in() -> None:
    meter = Meter(redactor=Redactor([b"hunter22"]))
    assert [meter(b"a hunt"), meter(b"er22 b hunt"), meter(b"")] == [b"a ", b"******** b ", b"hunt"]
    assert meter.count == len(b"a hunter22 b hunt")
