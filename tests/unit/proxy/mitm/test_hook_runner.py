import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._hooks import (
    HttpErrorHook,
    HttpRequestHeadersHook,
    HttpRequestHook,
    HttpResponseHeadersHook,
    HttpResponseHook,
)
from mitmproxy.proxy.layers.tls import TlsFailedClientHook, TlsStartClientHook, TlsStartServerHook
from mitmproxy.test import tflow
from mitmproxy.tls import TlsData
from OpenSSL import SSL

from agent_sandbox.proxy.exchange.denial import UNDECIDED
from agent_sandbox.proxy.exchange.exchange import NOT_DECIDED, Exchange
from agent_sandbox.proxy.mitm.flows import ExchangeOwner
from agent_sandbox.proxy.mitm.hook_runner import HookRunner
from agent_sandbox.proxy.mitm.session import EngineOptions
from agent_sandbox.proxy.mitm.stream import MalformedHook
from agent_sandbox.proxy.tls.contexts import TlsStart
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from layer_harness import LetThrough

TLS = ("tls_start_client", "tls_start_server")
TUNNEL = Tunnel(client="", carries=Carries.HTTP, host="a.test", port=80)


class Ran:
    """A runner with one function behind each hook, and what came of it."""

    def __init__(self, *functions: Callable[[Any, Tunnel], None]) -> None:
        self.said: list[str] = []
        self.owner = ExchangeOwner()
        names = ("requestheaders", "responseheaders", "tls_start_client", "tls_failed_client")
        self.runner = HookRunner(
            dict.fromkeys(names, functions),
            TUNNEL,
            on_fault=self.said.append,
            close=lambda: self.said.append("closed"),
        )

    def decide(self, flow: http.HTTPFlow) -> Exchange:
        """Run the hook of a request's head."""
        self.runner.run(HttpRequestHeadersHook(flow), self.owner)
        assert self.owner.exchange
        return self.owner.exchange


def raising(error: BaseException) -> Callable[[Any, Tunnel], None]:
    def function(_: object, __: Tunnel) -> None:
        raise error

    return function


def test_passes_the_exchange_and_the_tunnel_to_the_functions_of_a_hook() -> None:
    got: list[object] = []
    ran = Ran(lambda exchange, tunnel: got.extend((exchange, tunnel)))
    assert got == [ran.decide(tflow.tflow()), TUNNEL]


def test_denies_a_request_that_no_hook_decides() -> None:
    flow, owner = tflow.tflow(), ExchangeOwner()
    HookRunner({}, TUNNEL, on_fault=print, close=print).run(HttpRequestHeadersHook(flow), owner)
    assert flow.response
    assert flow.response.status_code == 403
    assert owner.exchange
    assert owner.exchange.outcome == NOT_DECIDED


def test_ignores_a_connection_hook_without_functions() -> None:
    HookRunner({}, TUNNEL, on_fault=print, close=print).run(
        TlsStartClientHook(object()),  # type: ignore[arg-type] # whatever it is about
        ExchangeOwner(),
    )


ERRORS = [ValueError(), asyncio.CancelledError(), TimeoutError()]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_while_deciding_denies_the_request_and_states_the_reason(error: BaseException) -> None:
    ran, flow = Ran(raising(error)), tflow.tflow()
    exchange = ran.decide(flow)
    assert flow.response
    assert flow.response.content == exchange.render(UNDECIDED).body
    assert flow.request.stream is False
    assert ran.said == ["error in hook requestheaders"]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_after_the_decision_denies_the_request_and_records_the_denial(error: BaseException) -> None:
    ran, flow = Ran(LetThrough().requestheaders, raising(error)), tflow.tflow()
    exchange = ran.decide(flow)
    assert flow.response
    assert flow.response.status_code == 403
    assert (exchange.forwarded, exchange.outcome.reason) == (None, UNDECIDED.reason)


def test_an_error_while_the_body_is_awaited_keeps_the_request_denied_when_the_body_arrives() -> None:
    def hold(exchange: Exchange, _: Tunnel) -> None:
        exchange.held = True
        raise ValueError

    ran, flow = Ran(hold), tflow.tflow()
    assert ran.decide(flow).held is False
    ran.runner.run(HttpRequestHook(flow), ran.owner)
    assert flow.response
    assert flow.response.status_code == 403


def test_an_error_before_the_exchange_exists_denies_the_request() -> None:
    ran, flow = Ran(), tflow.tflow()
    flow.request.data.path = None  # type: ignore[assignment] # what no head has
    ran.runner.run(HttpRequestHeadersHook(flow), ran.owner)
    assert ran.owner.exchange is None
    assert flow.response
    assert flow.response.status_code == 403
    for hook in (HttpRequestHook, HttpResponseHeadersHook, HttpResponseHook, HttpErrorHook):
        ran.runner.run(hook(flow), ran.owner)
    assert flow.error
    assert (flow.error.msg, ran.said) == (Error.KILLED_MESSAGE, ["error in hook requestheaders"])


def test_an_error_in_a_response_hook_kills_the_response() -> None:
    ran, flow = Ran(raising(ValueError())), tflow.tflow(resp=True)
    ran.runner.run(HttpResponseHeadersHook(flow), ran.owner)
    assert (flow.error and flow.error.msg, ran.said) == (Error.KILLED_MESSAGE, [])  # there is no exchange
    flow.error = None
    ran.decide(flow)
    flow.response = tflow.tflow(resp=True).response
    ran.said.clear()
    ran.runner.run(HttpResponseHeadersHook(flow), ran.owner)
    assert flow.error
    assert flow.error.msg == Error.KILLED_MESSAGE
    assert ran.said == ["error in hook responseheaders", "closed"]


def test_an_error_in_a_connection_hook_closes_the_connection() -> None:
    ran = Ran(raising(ValueError()))
    ran.runner.run(TlsStartClientHook(object()), ran.owner)  # type: ignore[arg-type] # whatever it is about
    assert ran.said == ["error in hook tls_start_client", "closed"]


@pytest.mark.parametrize(("alpn", "http2"), [(b"h2", True), (b"http/1.1", False)])
def test_uses_the_tls_object_that_a_hook_sets_and_sends_the_tunnels_host_as_sni(alpn: bytes, *, http2: bool) -> None:
    connection = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
    got: list[bool] = []

    def set_it(start: TlsStart, _: Tunnel) -> None:
        got.append(start.http2)
        start.connection = connection

    client, server = tflow.tclient_conn(), tflow.tserver_conn()
    client.alpn = alpn
    context = Context(client, cast("Any", EngineOptions()))
    runner = HookRunner(dict.fromkeys(TLS, (set_it,)), TUNNEL, on_fault=pytest.fail, close=pytest.fail)
    for hook, peer in ((TlsStartClientHook, client), (TlsStartServerHook, server)):
        data = TlsData(peer, context)
        runner.run(hook(data), ExchangeOwner())
        assert data.ssl_conn is connection
    assert (got, server.sni) == ([http2, http2], "a.test")


def test_passes_the_reason_to_the_hook_for_malformed_requests() -> None:
    got: list[object] = []
    runner = HookRunner(
        {"malformed": (lambda reason, _: got.append(reason),)}, TUNNEL, on_fault=pytest.fail, close=pytest.fail
    )
    runner.run(MalformedHook("bare LF"), ExchangeOwner())
    assert got == ["bare LF"]


def test_passes_the_error_to_the_hook_for_failed_handshakes() -> None:
    got: list[object] = []
    client = tflow.tclient_conn()
    client.error = "unknown ca"
    ran = Ran(lambda error, _: got.append(error))
    ran.runner.run(TlsFailedClientHook(TlsData(client, cast("Any", None))), ran.owner)
    assert got == ["unknown ca"]


def test_does_not_catch_keyboard_interrupt() -> None:
    ran = Ran(raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        ran.decide(tflow.tflow())
