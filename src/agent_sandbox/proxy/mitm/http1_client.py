"""HTTP/1 to the upstream server: mitmproxy's state machine without the places where it hangs, falls over or lies."""

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
    """Close without a farewell: the other side has a part, and must not take it for the whole."""


class AbortConnection(CutConnection):
    """Close so that the other side hears of it at once, whatever is still on its way to it."""


class TrailerDropper(ChunkedReader):
    """Reads a chunked response. Trailers end it and are not passed on; mitmproxy raises on them."""

    _ended = False

    @override
    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        # All chunks that are there at once: each alone would go the way through all layers.
        data = b"".join(iter(lambda: self._piece(buf), b""))
        if data:
            return h11.Data(data=data)
        return h11.EndOfMessage() if self._ended else None

    def _piece(self, buf: ReceiveBuffer) -> bytes:
        event = None if self._ended else super().__call__(buf)
        if event is None and not self._ended and len(buf) > HEAD_BYTES:
            raise h11.RemoteProtocolError(f"a chunk's size, or trailers, of more than {HEAD_BYTES} bytes")
        self._ended = self._ended or isinstance(event, h11.EndOfMessage)
        return bytes(event.data) if isinstance(event, h11.Data) else b""


class StrictHttp1Client(Http1Client):
    """Frames what it forwards, skips interim answers, bounds response heads."""

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
                yield from self._refuse("the server's answer cannot be read: it is not HTTP/1")
                return
        yield from super().read_headers(event)

    @override
    def read_body(self, event: events.Event) -> Commands:
        if self.response_done and isinstance(event, events.DataReceived):
            # The request is still on its way. What comes behind its answer is nobody's: a byte of it is kept, for
            # which the connection is closed when the request has ended.
            self.buf.maybe_extract_at_most(len(self.buf) - 1)
            return
        if isinstance(event, events.ConnectionClosed) and self.conn.error and self.stream_id is not None:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, self.conn.error, ErrorCode.GENERIC_SERVER_ERROR))
            return
        if type(self.body_reader) is ChunkedReader:
            self.body_reader = TrailerDropper()
        yield from super().read_body(event)

    def _skip_interim(self) -> None:
        # `103 Early Hints` and the like: mitmproxy would take them for the answer, and the answer for a surprise.
        # Each is a part of what comes before the body, of which there is to be an end.
        while (end := self.buf.head_end()) and self._status() != "101" and self._status().startswith("1"):
            self.buf.maybe_extract_at_most(end)
            self._interim_bytes += end

    def _status(self) -> str:
        """Return what the answer's is, as far as it is there; nothing if what is there is no beginning of an answer."""
        begun = self.buf.first(len(SAMPLE))
        found = STATUS.fullmatch(begun + SAMPLE[len(begun) :])
        return found["status"].decode() if found else ""

    def _refuse(self, reason: str) -> Commands:
        yield commands.CloseConnection(self.conn)
        if self.stream_id is not None:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, reason, ErrorCode.GENERIC_SERVER_ERROR))


def _frame(event: RequestHeaders) -> None:
    # An HTTP/2 body needs no length. Sent on to HTTP/1 as it is, its bytes would be read as the next request.
    headers = event.request.headers
    if not (event.end_stream or "content-length" in headers or "transfer-encoding" in headers):
        headers["transfer-encoding"] = "chunked"


def install() -> None:
    """Make mitmproxy's layers use this client; they name theirs, and leave no other way in.

    Also skip a check of argument types, meant for debugging, that took a twelfth of each request.
    """
    http.MessageData.__post_init__ = lambda _: None  # type: ignore[method-assign]
    http_layer.Http1Client = StrictHttp1Client  # type: ignore[attr-defined]
