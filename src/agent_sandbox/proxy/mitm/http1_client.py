"""HTTP/1 to the server: mitmproxy's state machine with our parser in front of it.

On its own, mitmproxy accepts bare LF and folded lines, takes an interim response for the final one, and buffers a head
of any size.
"""

from typing import cast, override

from h11._readers import ContentLengthReader, Http10Reader
from mitmproxy import http
from mitmproxy.connection import Connection, ConnectionState
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    HttpEvent,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http1 import Http1Client, TBodyReader

from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_chunks import TrailerDropper
from agent_sandbox.proxy.wire.http1_head import BadHeadError, Body, BodyEnd, ResponseHead
from agent_sandbox.proxy.wire.response_start import ResponseStart

Commands = layer.CommandGenerator[None]
HALF_A_HEAD = "the server closed the connection before the end of its response head"


class AbortConnection(commands.CloseConnection):
    """Close with a reset, which the other side notices at once, even if data is still on its way."""


class NoResponse(ResponseProtocolError):  # noqa: N818 - an event
    """The server closed the connection before the first byte of a response."""


class ExchangeOver(commands.Command):
    """Reports that a request and its response have passed the connection completely; `head` is the response's.

    Not a ConnectionCommand: mitmproxy's TLS layer raises on those that it does not know.
    """

    def __init__(self, connection: Connection, head: ResponseHead) -> None:
        self.connection = connection
        self.head = head


class StrictHttp1Client(Http1Client):
    """Reads response heads with `parse_response`, skips interim responses, and adds missing framing to requests."""

    buf: BodyBuffer

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.buf = BodyBuffer()
        self._start = ResponseStart()
        self._is_silent = True
        self._head: ResponseHead | None = None  # None if the connection may not be shared afterwards

    @override
    def send(self, event: HttpEvent) -> Commands:
        if isinstance(event, RequestTrailers):
            return  # HTTP/1 has them in chunked bodies only, and few servers read them
        if isinstance(event, RequestProtocolError) and event.code is not ErrorCode.PASSTHROUGH_CLOSE:
            self.buf = BodyBuffer()  # what came after a response belongs to no request
            yield AbortConnection(self.conn)
            return
        if isinstance(event, RequestHeaders):
            _frame(event)
        yield from super().send(event)

    @override
    def read_headers(self, event: events.ConnectionEvent) -> Commands:
        if self.request is None or self.stream_id is None:
            yield from self._close()  # a response to nothing, or the server has left
            return
        if not isinstance(event, events.DataReceived):
            why = HALF_A_HEAD if self.buf else self.conn.error or "server closed connection"
            yield from self._refuse(self.stream_id, why, NoResponse if self._is_silent else ResponseProtocolError)
            return
        self._is_silent = False
        try:
            # mitmproxy would take an interim response for the final one.
            head = self._start.read(self.buf)
            body = head.body(self.request.method) if head else 0
        except BadHeadError as problem:
            yield from self._refuse(self.stream_id, f"malformed response from the server: {problem}")
            return
        if head is None:
            return
        # After a response that began before its request ended, it is unclear what the server has read.
        self._head = head if self.request_done and body is not BodyEnd.CLOSE else None
        self.response = _response(head)
        yield ReceiveHttp(ResponseHeaders(self.stream_id, self.response, body == 0))
        self.body_reader = cast("TBodyReader", _reader(body))
        self.state = self.read_body
        yield from self.state(event)

    @override
    def read_body(self, event: events.Event) -> Commands:
        if isinstance(event, events.ConnectionClosed) and self.conn.error and self.stream_id is not None:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, self.conn.error, ErrorCode.GENERIC_SERVER_ERROR))
            return
        yield from super().read_body(event)

    @override
    def mark_done(self, *, request: bool = False, response: bool = False) -> Commands:
        if response and self._head is not None and not self.buf:
            yield ExchangeOver(self.conn, self._head)
        yield from super().mark_done(request=request, response=response)

    def _refuse(
        self, stream_id: int, reason: str, kind: type[ResponseProtocolError] = ResponseProtocolError
    ) -> Commands:
        yield from self._close()
        yield ReceiveHttp(kind(stream_id, reason, ErrorCode.GENERIC_SERVER_ERROR))

    def _close(self) -> Commands:
        self.state = self.done
        if self.conn.state & ConnectionState.CAN_WRITE:
            yield commands.CloseConnection(self.conn)


def _response(head: ResponseHead) -> http.Response:
    return http.Response(
        http_version=head.version.encode(),
        status_code=head.status,
        reason=head.reason,
        headers=http.Headers(head.forwarded),
        content=None,
        trailers=None,
        timestamp_start=0.0,
        timestamp_end=None,
    )


def _reader(body: Body) -> TrailerDropper | ContentLengthReader | Http10Reader:
    match body:
        case BodyEnd.CHUNKED:
            return TrailerDropper()
        case BodyEnd.CLOSE:
            return Http10Reader()
        case length:
            return ContentLengthReader(length)


def _frame(event: RequestHeaders) -> None:
    # An HTTP/2 body needs no length. Forwarded to HTTP/1 without one, it would be read as the next request.
    headers = event.request.headers
    if not (event.end_stream or "content-length" in headers or "transfer-encoding" in headers):
        headers["transfer-encoding"] = "chunked"


def install() -> None:
    """Replace the class that mitmproxy's layers use: its name is hard-coded there.

    Also disable a type check, meant for debugging, that took a twelfth of the time of each request.
    """
    http.MessageData.__post_init__ = lambda _: None  # type: ignore[method-assign]
    http_layer.Http1Client = StrictHttp1Client  # type: ignore[attr-defined]
