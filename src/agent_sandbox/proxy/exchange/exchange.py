"""The state of one request, from its head to its audit record, stored in the metadata of its flow."""

from dataclasses import dataclass, field
from http import HTTPStatus

from mitmproxy import http

from agent_sandbox.policy import Request
from agent_sandbox.policy.explain.advice import APPLY
from agent_sandbox.policy.http.addresses import PUBLIC_ALONE
from agent_sandbox.proxy.audit.record import AuditRecord, Event
from agent_sandbox.proxy.exchange.denial import Denial, page
from agent_sandbox.proxy.secrets.redaction import Echoes, Redactor
from agent_sandbox.proxy.upstream.dialler import NotReached, Refused

KEY = "agent-sandbox"


@dataclass(slots=True)
class Meter:
    """Counts the bytes of a body and passes it on chunk by chunk.

    As the `stream` of a flow's message it also keeps mitmproxy from buffering the body. `limit` is in bytes.
    """

    count: int = 0
    limit: int | None = None
    redactor: Redactor | None = None

    def takes(self, size: int) -> bool:
        """Return whether `size` more bytes are within the limit."""
        return self.limit is None or self.count + size <= self.limit

    def __call__(self, data: bytes) -> bytes:
        """Count `data` and return it, redacted if there is a redactor. Empty `data` means the end of the body."""
        self.count += len(data)
        if self.redactor is None:
            return data
        return self.redactor.feed(data) if data else self.redactor.end()


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request: its audit record, and the counters that complete the record when the request ends.

    `request` is set once the request is allowed. `aborted` says why an allowed request was aborted.
    """

    line: AuditRecord
    started: float
    request: Request | None = None
    aborted: Denial | None = None
    sent: Meter = field(default_factory=Meter)
    received: Meter = field(default_factory=Meter)
    websocket: bool = False
    written: bool = False
    # Whether the body is buffered because the decision needs it. Until then the request counts as denied.
    held: bool = False
    # What echoes of the injected secrets look like.
    echoes: Echoes = field(default=(), repr=False)


def open_exchange(flow: http.HTTPFlow, *, client: str, started: float) -> Exchange:
    """Attach a new `Exchange` to `flow`; until decided, it counts as denied."""
    exchange = Exchange(line=AuditRecord(event=Event.REQUEST, client=client, reason="not decided"), started=started)
    flow.metadata[KEY] = exchange
    return exchange


def exchange_of(flow: http.HTTPFlow) -> Exchange | None:
    """Return the `Exchange` that `open_exchange` attached to `flow`."""
    found = flow.metadata.get(KEY)
    return found if isinstance(found, Exchange) else None


def mark_aborted(exchange: Exchange, denial: Denial, *, cause: str = "") -> None:
    """Record that an allowed request is now denied. A record that was already written is followed by a second one."""
    exchange.aborted, exchange.written = denial, False
    line = exchange.line
    line.event, line.decision, line.cause, line.reason = Event.REQUEST, "deny", cause, denial.reason


def not_read(exchange: Exchange, reason: str, *, status: int) -> Denial:
    """Return the denial of a request whose body was needed for the decision but could not be read."""
    exchange.held, exchange.line.reason = False, reason
    line = exchange.line
    return Denial(status=status, reason=reason, host=line.host, method=line.method, path=line.path)


def too_large(exchange: Exchange) -> Denial:
    """Return the denial of a request whose body exceeds `max_body`."""
    line = exchange.line
    return Denial(
        status=413,
        reason=f"the body is larger than the {exchange.sent.limit} bytes that {line.rule} allows",
        host=line.host,
        method=line.method,
        path=line.path,
        rule=line.rule,
        hint=f"raise `max_body` at {line.rule}, {APPLY}",
    )


def answer(flow: http.HTTPFlow, denial: Denial) -> http.Response:
    """Build the response for `denial`, in the format that the client accepts."""
    rendered = page(denial, flow.request.headers.get("accept", ""))
    body = b"" if flow.request.data.method == b"HEAD" else rendered.body
    # After a malformed request it is unclear where the next one begins.
    closing = ((b"connection", b"close"),) if rendered.status == 400 and not flow.request.is_http2 else ()
    return http.Response(
        http_version=b"HTTP/1.1",
        status_code=rendered.status,
        reason=HTTPStatus(rendered.status).phrase.encode(),
        headers=http.Headers((*rendered.fields, *closing)),
        content=body,
        trailers=None,
        timestamp_start=0.0,
        timestamp_end=None,
    )


def blank_denial() -> http.Response:
    """Return a denial with an empty body."""
    fields = ((b"x-agent-sandbox", b"blocked"), (b"content-length", b"0"))
    return http.Response(b"HTTP/1.1", 403, b"Forbidden", http.Headers(fields), b"", None, 0.0, None)


# The response of every flow until it is decided. Shared, because building one took a fifteenth of each request's time.
NOT_DECIDED = blank_denial()


def failure(flow: http.HTTPFlow, why: NotReached) -> http.Response:
    """Return the response to an allowed request that could not be forwarded: 403 for a refused address, else 502.

    If the request was aborted, return that denial instead.
    """
    exchange = exchange_of(flow)
    if exchange is not None and exchange.aborted is not None:
        return answer(flow, exchange.aborted)
    refused = isinstance(why, Refused)
    denial = Denial(
        status=403 if refused else 502,
        reason=str(why),
        host=flow.request.data.host,
        method=flow.request.method,
        path=flow.request.path.partition("?")[0],
        hint=PUBLIC_ALONE if refused else "",
    )
    if exchange is not None:
        exchange.line.decision = "deny" if refused else "allow"
        exchange.line.cause = "address" if refused else ""
        exchange.line.reason = str(why)
    return answer(flow, denial)
