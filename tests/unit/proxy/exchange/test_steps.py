import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.exchange.steps import NOT_DECIDED, Steps
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.wire.message import RequestHead
from lane_stage import PLAIN

HEAD = RequestHead(b"GET", b"/x", b"HTTP/1.1", (), b"", "a.test", 80, b"http")


def opened() -> Exchange:
    return open_exchange(HEAD, PLAIN, started=0.0)


def steps(function: Callable[[Exchange], None], name: str = "requestheaders") -> tuple[Steps, list[AuditRecord]]:
    lines: list[AuditRecord] = []
    return Steps({name: (lambda exchange, _: function(exchange),)}, PLAIN, lines.append), lines


def allow(exchange: Exchange) -> None:
    exchange.forwarded = exchange.head


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError(), TimeoutError(), MemoryError()])
def test_a_fault_in_a_hook_denies_and_is_recorded_even_after_an_allow(error: BaseException) -> None:
    def fall(exchange: Exchange) -> None:
        exchange.forwarded = exchange.head
        raise error

    subject, lines = steps(fall)
    exchange = opened()
    page = subject.decide(exchange)
    assert page == exchange.render(UNDECIDED)
    assert exchange.forwarded is None
    assert [(line.event, line.reason, line.host) for line in lines] == [
        ("fault", "error in hook requestheaders", "a.test")
    ]


def test_does_not_catch_a_keyboard_interrupt() -> None:
    def stop(_: Exchange) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steps(stop)[0].decide(opened())


def test_a_request_that_no_hook_decides_is_denied() -> None:
    assert steps(lambda _: None)[0].decide(opened()) is NOT_DECIDED


def test_a_later_denial_replaces_an_earlier_allow() -> None:
    exchange = opened()
    assert steps(allow)[0].decide(exchange) is None
    assert exchange.forwarded is exchange.head
    denied = steps(lambda other: other.deny(other.denial("no")))[0].decide(exchange)
    assert denied is exchange.answer
    assert exchange.forwarded is None


@pytest.mark.parametrize(
    ("name", "pending", "wanted"),
    [("requestheaders", {"held": True}, None), ("request", {"held": True}, NOT_DECIDED)],
)
def test_a_request_waits_for_its_body_only_after_the_request_headers(
    name: str, pending: dict[str, Any], wanted: object
) -> None:
    exchange = opened()
    exchange.held = pending["held"]
    assert steps(lambda _: None, name)[0].decide(exchange, name) is wanted


def test_a_request_that_waits_for_a_person_gets_no_answer_yet() -> None:
    exchange = opened()
    exchange.waiting = Waiting(leave=lambda: None)
    assert steps(lambda _: None)[0].decide(exchange) is None
