"""Map mitmproxy's flows to exchanges and back. Hooks read and write exchanges only.

Each step denies first: it marks the flow as denied or killed, runs the hooks, and lifts the mark in its last line, if
the hooks allowed it. After an error or a cancellation anywhere before, the mark remains.
"""

from collections.abc import Callable
from http import HTTPStatus

from mitmproxy import http
from mitmproxy.flow import Error

from agent_sandbox.proxy.exchange.denial import Denial, Page, page
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.exchange.hooks import Hooks
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.message import RequestHead, ResponseHead

# The hooks that mitmproxy runs on a flow, each a method of `FlowHooks`.
STEPS = frozenset({"requestheaders", "request", "responseheaders", "response", "error"})


class ExchangeOwner:
    """The stream that runs a flow. It owns the exchange, which ends with it."""

    exchange: Exchange | None = None


class FlowHooks:
    """Runs the hooks of one connection on the exchanges of its flows."""

    def __init__(self, hooks: Hooks, tunnel: Tunnel, *, clock: Callable[[], float]) -> None:
        self._hooks = hooks
        self._tunnel = tunnel
        self._clock = clock

    def requestheaders(self, flow: http.HTTPFlow, owner: ExchangeOwner) -> None:
        """Open the exchange of a flow and have it decided, or decided again."""
        flow.response, flow.request.stream = NOT_DECIDED, False
        exchange = owner.exchange
        if exchange is None or exchange.waiting is None:  # else it has waited for a person
            exchange = open_exchange(read_request(flow.request), self._tunnel, started=self._clock())
            owner.exchange = exchange
        if flow.error is not None:
            exchange.malformed = flow.error.msg
        self._call("requestheaders", exchange)
        write_decision(flow, exchange)

    def request(self, flow: http.HTTPFlow, owner: ExchangeOwner) -> None:
        """Have a request decided that waited for its body. Drop the trailers of any: no rule covers them."""
        flow.request.trailers = None
        exchange = owner.exchange
        if exchange is None or not exchange.held:
            return
        # mitmproxy has answered `Expect` and removed it.
        exchange.head = read_request(flow.request)
        exchange.body = flow.request.raw_content or b""
        self._call("request", exchange)
        exchange.body = b""
        write_decision(flow, exchange)

    def responseheaders(self, flow: http.HTTPFlow, owner: ExchangeOwner) -> None:
        """Return the head of a response to the client as the hooks left it, if they returned one."""
        if flow.error is not None:
            return
        flow.error = Error(Error.KILLED_MESSAGE)
        exchange, response = owner.exchange, flow.response
        if exchange is None or response is None:
            return
        exchange.response, exchange.returned = read_response(response), None
        self._call("responseheaders", exchange)
        if exchange.returned is None:
            return
        write_response(response, exchange.returned)
        response.stream = not exchange.received.holds_head  # `StrictStream` meters and filters the body
        flow.error = None

    def response(self, flow: http.HTTPFlow, owner: ExchangeOwner) -> None:
        """Return the trailers of a response as the hooks left them; the exchange ends."""
        exchange, response = owner.exchange, flow.response
        if exchange is None or response is None:
            return
        exchange.status, trailers = response.status_code, response.trailers
        response.trailers = None
        exchange.trailers = trailers.fields if trailers is not None else None
        self._call("response", exchange)
        if exchange.trailers is not None:
            response.trailers = http.Headers(exchange.trailers)

    def error(self, flow: http.HTTPFlow, owner: ExchangeOwner) -> None:
        """End the exchange of a flow that broke off."""
        exchange = owner.exchange
        if exchange is None:
            return
        if flow.error is not None:
            exchange.error = flow.error.msg
        exchange.status = flow.response.status_code if flow.response is not None else None
        self._call("error", exchange)

    def _call(self, name: str, exchange: Exchange) -> None:
        for function in self._hooks.get(name, ()):
            function(exchange, self._tunnel)


def read_request(request: http.Request) -> RequestHead:
    """Return the head of a request."""
    data = request.data
    fields = data.headers.fields
    return RequestHead(
        data.method, data.path, data.http_version, fields, data.authority, data.host, data.port, data.scheme
    )


def read_response(response: http.Response) -> ResponseHead:
    """Return the head of a response."""
    data = response.data
    return ResponseHead(data.status_code, data.reason, data.headers.fields)


def write_decision(flow: http.HTTPFlow, exchange: Exchange) -> None:
    """Write the decision, if there is one, into a flow that is denied. An allow lifts the denial in the last line."""
    if exchange.forwarded is None:
        if exchange.answer is not None:
            # Without `Expect`, mitmproxy does not send 100 Continue before the denial.
            flow.request.headers.pop("expect", None)
            flow.response = to_response(exchange.answer)
        return
    write_request(flow.request, exchange.forwarded)
    flow.request.stream = exchange.sent
    flow.response = None


def write_request(request: http.Request, head: RequestHead) -> None:
    """Replace the head of a request that goes to the server."""
    data = request.data
    data.headers.fields = head.fields
    data.host, data.port, data.scheme = head.host, head.port, head.scheme
    data.path, data.authority = head.target, head.authority


def write_response(response: http.Response, head: ResponseHead) -> None:
    """Replace the head of a response that goes to the client."""
    response.data.headers.fields, response.data.reason = head.fields, head.reason


def deny(flow: http.HTTPFlow, exchange: Exchange | None, denial: Denial) -> None:
    """Set `denial` as the response of a flow."""
    flow.response = to_response(page(denial) if exchange is None else exchange.render(denial))


def to_response(answer: Page) -> http.Response:
    """Return a response of our own."""
    return http.Response(
        http_version=b"HTTP/1.1",
        status_code=answer.status,
        reason=HTTPStatus(answer.status).phrase.encode(),
        headers=http.Headers(answer.fields),
        content=answer.body,
        trailers=None,
        timestamp_start=0.0,
        timestamp_end=None,
    )


# The response of every flow until it is decided. Shared, because building one took a fifteenth of each request's time.
NOT_DECIDED = to_response(Page(403, ((b"x-agent-sandbox", b"blocked"), (b"content-length", b"0")), b""))
