"""HTTP/1 to the server: mitmproxy's state machine, with fixes where it hangs, crashes or misreports."""

import re
from typing import override

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from mitmproxy import http
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
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http1 import Http1Client

from agent_sandbox.proxy.wire.body_buffer import BodyBuffer

Commands = layer.CommandGenerator[None]
HEAD_BYTES = 256 * 1024
SAMPLE = b"HTTP/1.1 200 "
STATUS = re.compile(rb"HTTP/1\.[01] (?P<status>[1-9][0-9]{2})[ \r\n]")


class CutConnection(commands.CloseConnection):
    """Close without close_notify: the other side has only part of the message and must notice."""


class AbortConnection(CutConnection):
    """Close with a reset, which the other side notices at once, even if data is still on its way."""


class TrailerDropper(ChunkedReader):
    """Reads a chunked response and drops its trailers, on which mitmproxy raises."""

    _ended = False

    @override
    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        # Join all available chunks: passing each one through all layers is slow.
        data = b"".join(iter(lambda: self._piece(buf), b""))
        if data:
            return h11.Data(data=data)
        return h11.EndOfMessage() if self._ended else None

    def _piece(self, buf: ReceiveBuffer) -> bytes:
        event = None if self._ended else super().__call__(buf)
        if event is None and not self._ended and len(buf) > HEAD_BYTES:
            raise h11.RemoteProtocolError(f"a chunk size line or trailers of more than {HEAD_BYTES} bytes")
        self._ended = self._ended or isinstance(event, h11.EndOfMessage)
        return bytes(event.data) if isinstance(event, h11.Data) else b""


class StrictHttp1Client(Http1Client):
    """Adds missing framing to requests, skips interim responses, limits the size of response heads."""

    buf: BodyBuffer

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.buf = BodyBuffer()
        self._interim_bytes = 0

    @override
    def send(self, event: HttpEvent) -> Commands:
        if isinstance(event, RequestTrailers):
            return  # HTTP/1 has them in chunked bodies only, and few servers read them
        if isinstance(event, RequestProtocolError) and event.code is not ErrorCode.PASSTHROUGH_CLOSE:
            yield AbortConnection(self.conn)
            return
        if isinstance(event, RequestHeaders):
            self._interim_bytes = 0
            _frame(event)
        yield from super().send(event)

    @override
    def read_headers(self, event: events.ConnectionEvent) -> Commands:
        if isinstance(event, events.DataReceived):
            self._skip_interim()
            unfinished = 0 if self.buf.head_end() else len(self.buf)
            if self._interim_bytes + unfinished > HEAD_BYTES:
                yield from self._refuse(f"the response head is larger than {HEAD_BYTES} bytes")
                return
            if self.stream_id is not None and not self._status():
                yield from self._refuse("the server's response is not HTTP/1")
                return
        yield from super().read_headers(event)

    @override
    def read_body(self, event: events.Event) -> Commands:
        if self.response_done and isinstance(event, events.DataReceived):
            # The request is still being sent. Data after its response belongs to no request: keep one byte of it,
            # so that the connection is closed when the request ends.
            self.buf.maybe_extract_at_most(len(self.buf) - 1)
            return
        if isinstance(event, events.ConnectionClosed) and self.conn.error and self.stream_id is not None:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, self.conn.error, ErrorCode.GENERIC_SERVER_ERROR))
            return
        if type(self.body_reader) is ChunkedReader:
            self.body_reader = TrailerDropper()
        yield from super().read_body(event)

    def _skip_interim(self) -> None:
        # mitmproxy would take an interim response such as `103 Early Hints` for the final one, and then reject the
        # final one. All of them count towards the limit for heads.
        while (end := self.buf.head_end()) and self._status() != "101" and self._status().startswith("1"):
            self.buf.maybe_extract_at_most(end)
            self._interim_bytes += end

    def _status(self) -> str:
        """Return the response's status as far as it has arrived, "" if the data cannot be the start of a response."""
        begun = self.buf.first(len(SAMPLE))
        found = STATUS.fullmatch(begun + SAMPLE[len(begun) :])
        return found["status"].decode() if found else ""

    def _refuse(self, reason: str) -> Commands:
        yield commands.CloseConnection(self.conn)
        if self.stream_id is not None:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, reason, ErrorCode.GENERIC_SERVER_ERROR))


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
