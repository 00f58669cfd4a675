"""HTTP/1 from the client: mitmproxy's state machine with our parser in front of it.

On its own, mitmproxy accepts bare LF, folded lines and spaces before the colon, waits forever after a leading CRLF, and
buffers a head of any size.
"""

from typing import cast, override

import h11
from h11._readers import ContentLengthReader
from mitmproxy import http
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    HttpEvent,
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http1 import Http1Server, TBodyReader

from agent_sandbox.proxy.exchange.denial import Denial, page
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.mitm.http1_client import AbortConnection, CutConnection
from agent_sandbox.proxy.mitm.stream import MalformedBody, MalformedHook
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_chunks import ChunkReader
from agent_sandbox.proxy.wire.http1_head import BadHeadError, RequestHead, find_request_end, parse_request
from agent_sandbox.proxy.wire.http1_target import split_target

Commands = layer.CommandGenerator[None]


class StrictHttp1Server(Http1Server):
    """Reads request heads with `parse_request`, within the limits, and closes the connection on a malformed one."""

    def __init__(self, context: Context, tunnel: Tunnel, limits: Limits) -> None:
        super().__init__(context)
        self.buf = BodyBuffer()
        self._tunnel = tunnel
        self._limits = limits
        self._deadline: commands.RequestWakeup | None = None
        self._turn: commands.RequestWakeup | None = None
        self._given_up = False

    @override
    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, events.Wakeup):
            yield from self._on_wakeup(event)
        else:
            yield from super()._handle_event(event)

    @override
    def read_headers(self, event: events.ConnectionEvent) -> Commands:
        if not isinstance(event, events.DataReceived):
            yield from super().read_headers(event)
            return
        try:
            end = find_request_end(bytes(self.buf), self._limits)
            head = parse_request(bytes(self.buf.maybe_extract_at_most(end) or b""), self._limits) if end else None
            request = self._request(head) if head else None
        except BadHeadError as problem:
            yield from self.refuse(str(problem), problem.status)
            return
        if head is None or request is None:
            yield from self._start_clock()
            return
        self._deadline = None
        self.request = request
        yield ReceiveHttp(RequestHeaders(self.stream_id, request, head.body == 0))
        self.body_reader = cast("TBodyReader", self._reader(head))
        self.state = self.read_body
        yield from self.state(event)

    @override
    def send(self, event: HttpEvent) -> Commands:
        if isinstance(event, ResponseProtocolError) and self.request and self.response:
            # The response is incomplete. Without TLS and a length, only a reset tells the client.
            endless = http1.expected_http_body_size(self.request, self.response) == -1
            yield AbortConnection(self.conn) if endless else CutConnection(self.conn)
        else:
            yield from super().send(event)

    @override
    def read_body(self, event: events.Event) -> Commands:
        # mitmproxy handles everything but data correctly, including a client that leaves in the middle.
        if not isinstance(event, events.DataReceived):
            yield from super().read_body(event)
            return
        try:
            while (piece := self.body_reader(self.buf)) is not None:
                if isinstance(piece, h11.EndOfMessage):
                    yield ReceiveHttp(RequestEndOfMessage(self.stream_id))
                    yield from self.mark_done(request=True)
                    return
                yield ReceiveHttp(RequestData(self.stream_id, bytes(piece.data)))
        except h11.RemoteProtocolError as error:
            yield from self._give_up(f"malformed body: {error}")

    def _give_up(self, reason: str) -> Commands:
        """Answer the request, or cut its response, and close: it is unknown where the next request begins."""
        self._given_up, self.state = True, self.wait
        if self.response_done:
            yield MalformedHook(reason)
            yield from self.mark_done(response=True)
        else:
            yield ReceiveHttp(MalformedBody(self.stream_id, reason))

    @override
    def mark_done(self, *, request: bool = False, response: bool = False) -> Commands:
        if self._given_up:
            yield commands.CloseConnection(self.conn)
            self.state = self.done
            return
        if response and not self.request_done and self._is_last:
            # mitmproxy would close only after the rest of the request. The client may wait for the end before it sends
            # that.
            yield commands.CloseTcpConnection(self.conn, half_close=True)
        # mitmproxy would handle the next pipelined request recursively: thousands in one packet blocked all other
        # connections for half a minute. Handle each in its own event instead.
        behind, self.buf = self.buf, BodyBuffer()
        yield from super().mark_done(request=request, response=response)
        self.buf = behind
        if self.state == self.passthrough:
            yield from self.make_pipe()
        elif self.buf and self.state == self.read_headers:
            self._turn = commands.RequestWakeup(0)
            yield self._turn

    @property
    def _is_last(self) -> bool:
        """Whether the connection ends with this response."""
        request, response = self.request, self.response
        assert request is not None  # noqa: S101 - there is one that was answered
        assert response is not None  # noqa: S101 - as above
        messages = ((request.http_version, request.headers), (response.http_version, response.headers))
        is_endless = http1.expected_http_body_size(request, response) == -1
        return is_endless or any(http1.connection_close(*message) for message in messages)  # type: ignore[no-untyped-call]

    def refuse(self, reason: str, status: int = 400) -> Commands:
        """Send a denial, close, and report the reason for the audit log."""
        yield MalformedHook(reason)
        yield commands.SendData(self.conn, page(Denial(reason=reason, status=status, host=self._tunnel.host)).http1())
        yield commands.CloseConnection(self.conn)
        self.state = self.done

    def _request(self, head: RequestHead) -> http.Request:
        target = split_target(head, self._tunnel)
        return http.Request(
            host=target.host,
            port=target.port,
            method=head.method.encode(),
            scheme=b"http" if target.host else b"",
            authority=b"",
            path=target.path.encode(),
            http_version=head.version.encode(),
            headers=http.Headers(head.fields),
            content=None,
            trailers=None,
            timestamp_start=0.0,
            timestamp_end=None,
        )

    def _reader(self, head: RequestHead) -> ChunkReader | ContentLengthReader:
        if isinstance(head.body, int):
            return ContentLengthReader(head.body)
        return ChunkReader(line_bytes=self._limits.chunk_line_bytes)

    def _start_clock(self) -> Commands:
        # mitmproxy's own timeout restarts with each byte, so a slow head would never time out.
        if self.buf and self._deadline is None:
            self._deadline = commands.RequestWakeup(self._limits.head_seconds)
            yield self._deadline

    def _on_wakeup(self, event: events.Wakeup) -> Commands:
        if event.command is self._turn and self.state == self.read_headers:
            yield from self.read_headers(events.DataReceived(self.conn, b""))
        elif event.command is self._deadline:
            yield from self.refuse("the request head did not arrive in time", 408)
