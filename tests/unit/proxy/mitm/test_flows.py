import gc
import weakref
from typing import override

import pytest
from mitmproxy import http
from mitmproxy.flow import Error
from mitmproxy.test import tflow

from agent_sandbox.policy import Effect
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.exchange.exchange import Exchange, Outcome
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.mitm.flows import NOT_DECIDED, ExchangeOwner, FlowHooks, deny
from agent_sandbox.proxy.mitm.stream import MalformedHook
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead, ResponseHead
from layer_harness import LetThrough, Wait, Wire, hooks_of

TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Mapped:
    """A flow and its exchange."""

    def __init__(self, *addons: object, response: bool = False) -> None:
        self.flow = tflow.tflow(resp=response)
        self.flow.request.data.headers = http.Headers([(b"Host", b"a.test"), (b"Expect", b"100-continue")])
        self.owner = ExchangeOwner()
        self.hooks = FlowHooks(hooks_of(*addons), TUNNEL, clock=lambda: 1.5)

    def run(self, name: str) -> Exchange:
        """Run the step of that name."""
        getattr(self.hooks, name)(self.flow, self.owner)
        assert self.owner.exchange
        return self.owner.exchange


class Rewriting(LetThrough):
    """Rewrites what goes to the server and to the client."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Rewrite it."""
        exchange.outcome = Outcome(Effect.ALLOW, "yes")
        exchange.forwarded = RequestHead(
            b"GET", b"/y", b"HTTP/1.1", ((b"Host", b"b.test"),), b"b.test", "b.test", 8443, b"https"
        )

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Rewrite it."""
        exchange.returned = ResponseHead(200, b"Fine", ((b"X", b"y"),))

    @hook
    def response(self, exchange: Exchange, _: Tunnel) -> None:
        """Rewrite the trailers."""
        exchange.trailers = ((b"sum", b"*"),)


def test_an_exchange_has_the_request_head_of_its_flow() -> None:
    exchange = Mapped().run("requestheaders")
    fields = ((b"Host", b"a.test"), (b"Expect", b"100-continue"))
    assert exchange.head == RequestHead(b"GET", b"/path", b"HTTP/1.1", fields, b"", "address", 22, b"http")
    assert (exchange.client, exchange.started) == ("10.0.0.3", 1.5)


def test_forwards_an_allowed_request_with_the_head_that_was_decided() -> None:
    mapped = Mapped(Rewriting())
    exchange, data = mapped.run("requestheaders"), mapped.flow.request.data
    assert (data.headers.fields, data.path, data.authority) == (((b"Host", b"b.test"),), b"/y", b"b.test")
    assert (data.host, data.port, data.scheme) == ("b.test", 8443, b"https")
    assert (mapped.flow.response, mapped.flow.request.stream) == (None, exchange.sent)


def test_a_request_that_waits_for_its_body_keeps_its_denial_and_expect_header() -> None:
    mapped = Mapped(Holding())
    mapped.run("requestheaders")
    assert mapped.flow.response is NOT_DECIDED
    assert mapped.flow.request.headers["expect"] == "100-continue"
    del mapped.flow.request.headers["expect"]  # as mitmproxy does once it has answered
    mapped.flow.request.raw_content = b"body"
    exchange = mapped.run("request")
    assert mapped.flow.response is None
    assert exchange.body == b""
    assert mapped.flow.request.data.headers.fields == ((b"Host", b"a.test"),)


class Holding(LetThrough):
    """Needs the body."""

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Wait for it."""
        exchange.held = True

    @hook
    def request(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Let it through, if it is there."""
        if exchange.body == b"body":
            super().requestheaders(exchange, tunnel)


def test_a_denied_request_gets_no_100_continue() -> None:
    class Denying:
        @hook
        def requestheaders(self, exchange: Exchange, _: Tunnel) -> None:
            exchange.deny(exchange.denial("no", status=418))

    mapped = Mapped(Denying())
    exchange, response = mapped.run("requestheaders"), mapped.flow.response
    assert response
    assert exchange.answer
    assert (response.status_code, response.reason, response.content) == (418, "I'm a Teapot", exchange.answer.body)
    assert "expect" not in mapped.flow.request.headers
    assert mapped.flow.request.stream is False


def test_passes_mitmproxys_error_for_a_malformed_request_to_the_hooks() -> None:
    mapped = Mapped()
    mapped.flow.error = Error("bad header")
    assert mapped.run("requestheaders").malformed == "bad header"


def test_removes_trailers_from_requests() -> None:
    mapped = Mapped()
    mapped.run("requestheaders")
    mapped.flow.request.trailers = http.Headers([(b"X", b"y")])
    mapped.run("request")
    assert mapped.flow.request.trailers is None


def test_returns_the_response_head_and_trailers_that_the_hooks_set() -> None:
    mapped = Mapped(Rewriting())
    exchange = mapped.run("requestheaders")
    mapped.flow.response = response = tflow.tflow(resp=True).response
    assert response
    response.trailers = http.Headers([(b"sum", b"secret")])
    mapped.run("responseheaders")
    assert (response.headers.fields, response.data.reason) == (((b"X", b"y"),), b"Fine")
    assert (response.stream, mapped.flow.error) == (True, None)
    mapped.run("response")
    assert (exchange.status, response.trailers.fields) == (200, ((b"sum", b"*"),))


class Silent(LetThrough):
    """Returns nothing."""

    @hook
    @override
    def responseheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Do nothing."""


def test_kills_a_response_that_no_hook_returns() -> None:
    mapped = Mapped(Silent(), response=True)
    mapped.run("requestheaders")
    mapped.flow.response = tflow.tflow(resp=True).response
    mapped.run("responseheaders")
    assert mapped.flow.error
    assert mapped.flow.error.msg == Error.KILLED_MESSAGE


def test_failed_flow_keeps_its_error() -> None:
    mapped = Mapped()
    mapped.run("requestheaders")
    mapped.flow.error = Error("gone")
    mapped.run("responseheaders")
    assert mapped.flow.error.msg == "gone"
    assert mapped.run("error").error == "gone"


@pytest.mark.parametrize("name", ["response", "error"])
def test_sets_the_status_that_the_client_got_when_an_exchange_ends(name: str) -> None:
    mapped = Mapped()
    mapped.run("requestheaders")
    mapped.flow.response = tflow.tflow(resp=True).response
    assert mapped.run(name).status == 200


def test_a_denial_without_an_exchange_has_a_body_with_the_reason() -> None:
    flow = tflow.tflow()
    deny(flow, None, Denial(reason="no"))
    assert flow.response
    assert (flow.response.status_code, b'"reason": "no"' in (flow.response.content or b"")) == (403, True)


def test_the_hook_for_malformed_requests_does_not_block() -> None:
    told = MalformedHook("a bare LF")
    assert (told.name, told.args(), told.blocking) == ("malformed", ["a bare LF"], False)


class Seen(LetThrough):
    """Remembers the exchanges, but does not keep them."""

    def __init__(self) -> None:
        self.exchanges: list[weakref.ref[Exchange]] = []

    @hook
    @override
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Remember it."""
        super().requestheaders(exchange, tunnel)
        self.exchanges.append(weakref.ref(exchange))


def test_no_exchange_outlives_its_flow() -> None:
    seen = Seen()
    wire = Wire(seen)
    for _ in range(5):
        wire.ask()
        wire.server_sends(OK)
    assert len(seen.exchanges) == 5
    gc.collect()
    assert [exchange() for exchange in seen.exchanges] == [None] * 5


def test_adds_no_metadata_to_flows() -> None:
    mapped = Mapped()
    mapped.run("requestheaders")
    assert mapped.flow.metadata == {}


def test_kills_the_response_of_a_flow_without_an_exchange() -> None:
    mapped = Mapped(response=True)
    for name in ("request", "response", "error"):
        getattr(mapped.hooks, name)(mapped.flow, mapped.owner)
        assert mapped.flow.response
        assert mapped.flow.response.stream is False
    mapped.hooks.responseheaders(mapped.flow, mapped.owner)
    assert mapped.flow.error
    assert mapped.flow.error.msg == Error.KILLED_MESSAGE


def test_a_request_that_waited_for_an_answer_keeps_its_exchange() -> None:
    mapped = Mapped(Wait())
    exchange = mapped.run("requestheaders")
    assert (mapped.flow.response, exchange.waits) == (NOT_DECIDED, True)
    assert exchange.waiting
    exchange.waiting.end("")
    assert mapped.run("requestheaders") is exchange
    assert (mapped.flow.response, exchange.allowed) == (None, True)
