"""One request and its response: mitmproxy's stream, but a denial is sent at once, not when the request body ends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, override

from mitmproxy import http
from mitmproxy.connection import Connection
from mitmproxy.flow import Error
from mitmproxy.net.http.validate import validate_headers
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import DropStream, GetHttpConnection, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook, HttpRequestHeadersHook

from agent_sandbox.proxy.connection.sharing import REPEATABLE
from agent_sandbox.proxy.exchange.denial import Denial
from agent_sandbox.proxy.exchange.exchange import Exchange, Meter, OverBudgetError
from agent_sandbox.proxy.exchange.review import revoke
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.flows import ExchangeOwner, deny
from agent_sandbox.proxy.mitm.http1_client import NoResponse
from agent_sandbox.proxy.mitm.http2_client import NotProcessed
from agent_sandbox.proxy.mitm.shared_server import REFUSES_HTTP1, SharedServer, shared_server
from agent_sandbox.proxy.net.fair_scheduler import Work, batch
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.redactable import safe_reason
from agent_sandbox.proxy.secrets.redaction import NO_ECHOES, Echoes
from agent_sandbox.proxy.secrets.unpacking import UnpackError
from agent_sandbox.proxy.tls.contexts import HTTP2
from agent_sandbox.proxy.upstream.dialler import NotReached
from agent_sandbox.proxy.wire.message import misspelt_framing

Commands = layer.CommandGenerator[None]
Carried = dict[Connection, Echoes]
Opened = tuple[Any, Any]  # the connection, or why there is none
ANSWERED = "the server sent its whole response before the end of the request"
NOT_FORWARDED = "the server's response cannot be forwarded"
SENT_TWICE = "the proxy had already sent it a second time; try again later"
NOT_KEPT = "the proxy did not keep it, because of its size or a reload; try again"


@dataclass
class AbortRequest(events.Event):
    """The request of this stream is no longer allowed."""

    denial: Denial


@dataclass
class MalformedHook(commands.StartHook):  # type: ignore[no-untyped-call]
    """A malformed request was rejected; `reason` says why. Layers do no I/O, so a hook writes the audit record."""

    name = "malformed"
    blocking = False
    reason: str


@dataclass
class TurnHook(commands.StartHook):  # type: ignore[no-untyped-call]
    """Waits for the turn of `work`, in which the next pieces of a response are filtered by its `meter`."""

    name = "turn"
    work: Work
    meter: Meter


class OwnConnection(GetHttpConnection):
    """Requests a connection that has carried the same secrets or none, so that no other secret can be echoed on it.

    `carried` holds the secrets that were sent on each existing connection. `shared`: the shared connection to open
    instead, if sharing is possible.
    """

    def __init__(self, request: http.Request, echoes: Echoes, shared: SharedServer | None = None) -> None:
        super().__init__((request.host, request.port), request.scheme == "https", None)
        self.echoes = echoes
        self.shared = shared
        self.carried: Carried = {}
        self.leaving: list[Connection] = []  # take no more requests

    @override
    def connection_spec_matches(self, connection: Connection) -> bool:
        if isinstance(connection, SharedServer) or connection in self.leaving:
            return False
        return super().connection_spec_matches(connection) and self.carried.get(connection) in (None, self.echoes)


class StrictStream(HttpStream, ExchangeOwner):
    """Sends denials early, and our own responses for server failures."""

    flow: http.HTTPFlow | None = None  # type: ignore[assignment]

    def __init__(self, context: Context, stream_id: int, limits: Limits) -> None:
        super().__init__(context, stream_id)
        self._limits = limits
        self.patience: commands.RequestWakeup | None = None
        self._is_bodyless = False
        self._was_repeated = False
        self.copied: bytearray | None = bytearray()
        """The request body as far as it was sent over HTTP/2, for a server that does not process it. None: not kept."""
        self._work = Work()
        self._turn: TurnHook | None = None
        self._is_stopped = False

    def revoke(self, revision: PolicyTransition) -> Denial | None:
        """Record and return a denial if the request was allowed and the new policy denies it."""
        if self._echoes:
            self.copied = None  # the new policy may send another secret, or none
        return None if self.exchange is None else revoke(self.exchange, revision)

    @override
    def handle_event(self, event: events.Event) -> Commands:
        # While the request waits for a person, mitmproxy only queues events.
        if isinstance(event, RequestProtocolError) and self.exchange is not None and self.exchange.waiting is not None:
            self.exchange.waiting.leave()
        if isinstance(event, events.HookCompleted) and isinstance(event.command, TurnHook):
            if event.command is not self._turn:
                return  # it was no longer wanted
            self._turn = None
        elif isinstance(event, RequestProtocolError | AbortRequest) and self._turn is not None:
            over, self._turn, self._is_stopped = self._turn, None, True
            yield from super().handle_event(events.HookCompleted(over))
        yield from super().handle_event(event)

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, AbortRequest):
            yield from self.abort(event.denial)
        elif isinstance(event, events.Wakeup):
            yield from self._read_no_further("the request body did not arrive in time", status=408)
        else:
            if isinstance(event, ResponseHeaders):
                self.copied = None
            yield from super()._handle_event(event)

    def abort(self, denial: Denial) -> Commands:
        """End the request so that neither side takes a partial message for a complete one."""
        flow = self._flow
        if not flow.live:
            return
        broken = RequestProtocolError(self.stream_id, denial.reason, ErrorCode.CANCEL)
        yield SendHttp(broken, self.context.server)
        if self.server_state in (self.state_stream_response_body, self.state_done, self.state_errored):
            yield from self._cut(denial.reason)
        else:
            deny(flow, self.exchange, denial)
            yield from self._answer()

    @override
    def state_stream_request_body(self, event: RequestData | RequestTrailers | RequestEndOfMessage) -> Commands:
        exchange = self.exchange
        denial = None
        if isinstance(event, RequestData) and exchange is not None:
            denial = exchange.refuse_data(len(event.data))
        if denial is not None:
            yield from self.abort(denial)
        else:
            if isinstance(event, RequestData):
                self._copy(event.data)
            yield from super().state_stream_request_body(event)

    def _copy(self, data: bytes) -> None:
        if self.copied is not None and self.context.server.alpn == HTTP2:
            self.copied += data

    @override
    def state_stream_response_body(self, event: events.Event) -> Commands:
        try:
            yield from self._filter(event, super().state_stream_response_body)
        except UnpackError as why:
            yield from self.abort(Denial(status=502, reason=f"{NOT_FORWARDED}: {why}"))
        except OverBudgetError as why:
            assert self.exchange is not None  # noqa: S101 - its meter raised
            yield from self.abort(self.exchange.over_budget(why.over))

    @override
    def state_consume_response_body(self, event: events.Event) -> Commands:
        """Hold a response whose head must not be sent before its body was filtered."""
        try:
            yield from self._filter(event, super().state_consume_response_body)
        except UnpackError as why:
            if isinstance(event, ResponseData):
                yield SendHttp(RequestProtocolError(self.stream_id, str(why), ErrorCode.CANCEL), self.context.server)
            yield from self._fail(NotReached(f"{NOT_FORWARDED}: {why}"))
        except OverBudgetError as why:
            assert self.exchange is not None  # noqa: S101 - its meter raised
            yield from self.abort(self.exchange.over_budget(why.over))

    def _filter(self, event: events.Event, state: Callable[[events.Event], Commands]) -> Commands:
        """Pass data or the end of a response on to `state`, filtered, piece by piece, each when it is its turn."""
        meter = self.exchange.received if self.exchange is not None else None
        if self._is_stopped:
            return
        if meter is None or isinstance(event, ResponseTrailers):
            yield from state(event)
            return
        pieces, is_over = meter.pieces(event.data) if isinstance(event, ResponseData) else meter.rest(), False
        while not is_over:
            if meter.changes:
                self._turn = TurnHook(self._work, meter)
                yield self._turn
                if self._is_stopped:
                    return
            made, is_over = batch(pieces)
            if made:
                yield from state(ResponseData(self.stream_id, made))
        if isinstance(event, ResponseEndOfMessage):
            yield from state(event)

    @override
    def send_response(self, already_streamed: bool = False) -> Commands:
        yield from super().send_response(already_streamed)
        if self.server_state == self.state_done and self.client_state == self.state_stream_request_body:
            # mitmproxy would first send the rest of the request, which the audit record does not count, and only then
            # the end of the response.
            self.client_state = self.state_done
            yield SendHttp(RequestProtocolError(self.stream_id, ANSWERED, ErrorCode.CANCEL), self.context.server)
            yield from self.flow_done()

    def _cut(self, reason: str) -> Commands:
        flow = self._flow
        flow.error = Error(reason)
        yield HttpErrorHook(flow)
        yield SendHttp(ResponseProtocolError(self.stream_id, reason, ErrorCode.KILL), self.context.client)
        flow.live = False
        self.client_state = self.server_state = self.state_errored
        yield DropStream(self.stream_id)

    @override
    def state_wait_for_request_headers(self, event: RequestHeaders) -> Commands:
        self._is_bodyless = event.end_stream
        yield from super().state_wait_for_request_headers(event)
        if self._held:
            self.patience = commands.RequestWakeup(self._limits.body_seconds)
            yield self.patience
        # mitmproxy answers a request without a body itself, when its end arrives in the same packet.
        if not event.end_stream and self._answered_by_us():
            yield from self._answer()

    def _answered_by_us(self) -> bool:
        waiting = self.client_state == self.state_consume_request_body
        return waiting and not self._held and self.flow is not None and self.flow.response is not None

    @property
    def _held(self) -> Exchange | None:
        """The exchange, if its request body is buffered."""
        return self.exchange if self.exchange is not None and self.exchange.held else None

    @override
    def state_consume_request_body(self, event: events.Event) -> Commands:
        exchange = self._held
        yield from super().state_consume_request_body(event)
        if exchange is not None and len(self.request_body_buf) > exchange.body_limit.size:
            yield from self._read_no_further(exchange.body_limit.reason, status=413)
        elif exchange is not None and isinstance(event, RequestEndOfMessage):
            # Forwarded or answered: free the quota and the memory before the server responds.
            data = self._flow.request.data
            body = (data.content or b"") if self._flow.response is None else b""
            exchange.sent.count = len(body)
            self._copy(body)
            exchange.held, data.content = False, None

    def _read_no_further(self, reason: str, *, status: int) -> Commands:
        exchange = self._held
        if exchange is not None and self.client_state == self.state_consume_request_body:
            self.request_body_buf.clear()  # type: ignore[no-untyped-call]
            deny(self._flow, exchange, exchange.not_read(reason, status=status))
            yield from self._answer()

    def _answer(self) -> Commands:
        self.client_state = self.state_done
        yield from self.send_response()

    @override
    def state_done(self, event: RequestData | RequestTrailers | RequestEndOfMessage) -> Commands:
        """Discard the rest of a request body that was answered early."""
        yield from ()

    @override
    def make_server_connection(self, *, shares: bool = True) -> layer.CommandGenerator[bool]:
        exchange = self.exchange
        shared = shared_server(exchange, is_bodyless=self._is_bodyless) if exchange is not None and shares else None
        connection, error = yield from self._connect(shared)
        if error is REFUSES_HTTP1:
            connection, error = yield from self._connect(None)
        if exchange is not None and exchange.aborted is None and self._was_repeated:
            exchange.refuse_data(0)  # a policy that was loaded since may allow less than was sent before
        if exchange is not None and exchange.aborted is not None:
            error = NotReached(exchange.aborted.reason)
        if error:
            yield from self._fail(error if isinstance(error, NotReached) else NotReached(error))
            return False
        self.context.server = self._flow.server_conn = connection
        return True

    def _connect(self, shared: SharedServer | None) -> layer.CommandGenerator[Opened]:
        opened: Opened = yield OwnConnection(self._flow.request, self._echoes, shared)
        return opened

    @override
    def handle_protocol_error(self, event: RequestProtocolError | ResponseProtocolError) -> Commands:
        if self.flow is not None and not self.flow.live:
            return  # the rest of an answer that was refused, which came in the same packet
        if self._may_repeat(event):
            yield from self._repeat()
            return
        if isinstance(event, NotProcessed) and self._flow.response is None:
            why = SENT_TWICE if self._was_repeated else NOT_KEPT
            event = ResponseProtocolError(event.stream_id, f"{event.message}; {why}", event.code)
        if isinstance(event, ResponseProtocolError):
            event = ResponseProtocolError(event.stream_id, safe_reason(self._echoes, event.message), event.code)
        answerable = isinstance(event, ResponseProtocolError) and event.code in (
            ErrorCode.GENERIC_SERVER_ERROR,
            ErrorCode.CONNECT_FAILED,
        )
        if answerable and self.flow is not None and self.flow.response is None:
            yield from self._fail(NotReached(event.message))
        else:
            yield from super().handle_protocol_error(event)

    def _may_repeat(self, event: RequestProtocolError | ResponseProtocolError) -> bool:
        """Return whether to send the request again, which happens only once.

        Either the server says that it did not process it, and its body was kept. Or the server probably closed a used
        connection before it read a request that may be sent twice.
        """
        if self.copied is None or self._was_repeated:
            return False
        if isinstance(event, NotProcessed):
            return True
        server = self.context.server
        was_used = isinstance(event, NoResponse) and isinstance(server, SharedServer) and server.was_used
        return was_used and self._is_bodyless and self._flow.request.data.method in REPEATABLE

    def _repeat(self) -> Commands:
        """Send the request again, as far as it was sent."""
        body, self.copied, self._was_repeated = bytes(self.copied or b""), None, True
        if not (yield from self.make_server_connection(shares=False)):
            return
        is_sent = self.client_state == self.state_done
        head = RequestHeaders(self.stream_id, self._flow.request, end_stream=is_sent and not body)
        yield SendHttp(head, self.context.server)
        if body:
            yield SendHttp(RequestData(self.stream_id, body), self.context.server)
        if is_sent:
            yield SendHttp(RequestEndOfMessage(self.stream_id), self.context.server)

    @override
    def check_killed(self, emit_error_hook: bool) -> layer.CommandGenerator[bool]:
        is_killed = yield from super().check_killed(emit_error_hook)
        if is_killed:
            yield DropStream(self.stream_id)  # mitmproxy would keep it until the client leaves
        return is_killed

    @override
    def check_invalid(self, request: bool) -> layer.CommandGenerator[bool]:
        reason = self._invalid(request=request)
        if reason is None:
            return False
        flow = self._flow
        if request:
            flow.error = Error(reason)
            yield HttpRequestHeadersHook(flow)
            deny(flow, self.exchange, Denial(status=400, reason=f"malformed: {reason}"))
            yield from self._answer()
        else:
            yield commands.CloseConnection(flow.server_conn)
            why = safe_reason(self._echoes, reason)
            yield from self._fail(NotReached(f"{NOT_FORWARDED}: {why}"))
        return True

    def _invalid(self, *, request: bool) -> str | None:
        message = self._flow.request if request else self._flow.response
        if request and self._flow.request.method == "CONNECT":
            return "CONNECT is valid only as the first request to the proxy"
        try:
            validate_headers(message)  # type: ignore[arg-type] # there is a response when one is checked
            if isinstance(message, http.Response):
                self._check_forwardable(message)
        except ValueError as error:
            return str(error)
        return misspelt_framing(message.data.headers.fields) or None  # type: ignore[union-attr] # as above

    def _check_forwardable(self, response: http.Response) -> None:
        """Raise ValueError if the response could not be redacted or filtered."""
        head = response.data
        if self.exchange and (why := self.exchange.why_unforwardable(head.status_code, head.headers.fields)):
            raise ValueError(why)

    @property
    def _echoes(self) -> Echoes:
        """What echoes of the injected secrets look like."""
        return self.exchange.echoes if self.exchange is not None else NO_ECHOES

    @property
    def _flow(self) -> http.HTTPFlow:
        assert self.flow is not None  # noqa: S101 - mitmproxy sets it before it calls anything that needs it
        return self.flow

    def _fail(self, why: NotReached) -> Commands:
        exchange = self.exchange
        deny(self._flow, exchange, Denial(status=502, reason=str(why)) if exchange is None else exchange.failure(why))
        yield from self._answer()
