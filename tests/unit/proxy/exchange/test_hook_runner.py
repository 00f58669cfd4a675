from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mitmproxy.flow import Error
from mitmproxy.proxy.layers.http._hooks import HttpRequestHeadersHook, HttpResponseHeadersHook
from mitmproxy.proxy.layers.tls import TlsStartClientHook
from mitmproxy.test import tflow

from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.exchange.exchange import NOT_DECIDED, answer
from agent_sandbox.proxy.exchange.hook_runner import HookRunner
from agent_sandbox.proxy.tunnel import Carries, Tunnel

if TYPE_CHECKING:
    from collections.abc import Callable

TUNNEL = Tunnel(client="", carries=Carries.HTTP, host="a.test", port=80)


class Ran:
    """A runner with one function behind each hook, and what came of it."""

    def __init__(self, function: Callable[[Any, Tunnel], None]) -> None:
        self.said: list[str] = []
        names = ("requestheaders", "responseheaders", "tls_start_client")
        self.runner = HookRunner(
            dict.fromkeys(names, (function,)),
            TUNNEL,
            on_fault=self.said.append,
            close=lambda: self.said.append("closed"),
        )


def raising(error: BaseException) -> Callable[[Any, Tunnel], None]:
    def function(_: object, __: Tunnel) -> None:
        raise error

    return function


def test_the_functions_of_a_hook_get_its_data_and_the_tunnel() -> None:
    got: list[object] = []
    flow = tflow.tflow()
    ran = Ran(lambda data, tunnel: got.extend((data, tunnel)))
    ran.runner.run(HttpRequestHeadersHook(flow))
    assert (got, ran.said) == ([flow, TUNNEL], [])


def test_a_hook_without_functions_is_nothing() -> None:
    HookRunner({}, TUNNEL, on_fault=print, close=print).run(HttpRequestHeadersHook(tflow.tflow()))


@pytest.mark.parametrize("error", [ValueError(), asyncio.CancelledError(), TimeoutError()])
def test_a_fault_while_deciding_leaves_a_denial_with_words(error: BaseException) -> None:
    ran, flow = Ran(raising(error)), tflow.tflow()
    flow.response = NOT_DECIDED
    flow.request.stream = True
    ran.runner.run(HttpRequestHeadersHook(flow))
    assert flow.response.content == answer(flow, UNDECIDED).content
    assert flow.request.stream is False
    assert ran.said == ["error in hook requestheaders"]


def test_a_fault_after_the_denial_was_lifted_kills_the_request() -> None:
    ran, flow = Ran(raising(ValueError())), tflow.tflow()
    ran.runner.run(HttpRequestHeadersHook(flow))
    assert flow.error
    assert flow.error.msg == Error.KILLED_MESSAGE
    assert ran.said == ["error in hook requestheaders", "closed"]


def test_a_fault_on_the_way_back_kills_the_response() -> None:
    ran, flow = Ran(raising(ValueError())), tflow.tflow(resp=True)
    ran.runner.run(HttpResponseHeadersHook(flow))
    assert flow.error
    assert ran.said == ["error in hook responseheaders", "closed"]


def test_a_fault_in_anything_else_ends_the_connection() -> None:
    ran = Ran(raising(ValueError()))
    ran.runner.run(TlsStartClientHook(object()))  # type: ignore[arg-type] # whatever it is about
    assert ran.said == ["error in hook tls_start_client", "closed"]


def test_an_order_to_stop_is_obeyed() -> None:
    ran = Ran(raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        ran.runner.run(HttpRequestHeadersHook(tflow.tflow()))
