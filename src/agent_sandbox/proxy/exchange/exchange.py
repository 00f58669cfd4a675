"""What is known of one request from its head to its log line, kept on the flow it belongs to."""

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
    """Passes a body on, chunk by chunk, and counts it. As a flow's `stream` it keeps mitmproxy from holding it.

    `limit` is the most that may pass.
    """

    count: int = 0
    limit: int | None = None
    redactor: Redactor | None = None

    def takes(self, size: int) -> bool:
        """Tell whether that much more may pass."""
        return self.limit is None or self.count + size <= self.limit

    def __call__(self, data: bytes) -> bytes:
        """Count `data`, and return it as it is, or what may be seen of it; nothing at all is the end."""
        self.count += len(data)
        if self.redactor is None:
            return data
        return self.redactor.feed(data) if data else self.redactor.end()


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request: the line that will be written of it, and the counters that the line is completed from.

    `request` is what was allowed. `broken_off` is why it was ended all the same, before it was over.
    """

    line: AuditRecord
    started: float
    request: Request | None = None
    broken_off: Denial | None = None
    sent: Meter = field(default_factory=Meter)
    received: Meter = field(default_factory=Meter)
    websocket: bool = False
    written: bool = False
    # Whether the body is kept, because the decision rests on it. Until that is made the denial stands.
    held: bool = False
    # What an echo of the secrets looks like that were put in.
    echoes: Echoes = field(default=(), repr=False)


def open_exchange(flow: http.HTTPFlow, *, client: str, started: float) -> Exchange:
    """Begin the ledger of `flow`, as a denial."""
    exchange = Exchange(line=AuditRecord(event=Event.REQUEST, client=client, reason="not decided"), started=started)
    flow.metadata[KEY] = exchange
    return exchange


def exchange_of(flow: http.HTTPFlow) -> Exchange | None:
    """Return what was begun for `flow`."""
    found = flow.metadata.get(KEY)
    return found if isinstance(found, Exchange) else None


def break_off(exchange: Exchange, denial: Denial, *, cause: str = "") -> None:
    """Note that what was allowed is not any more. Of what was written of it already, this is another line."""
    exchange.broken_off, exchange.written = denial, False
    line = exchange.line
    line.event, line.decision, line.cause, line.reason = Event.REQUEST, "deny", cause, denial.reason


def not_read(exchange: Exchange, reason: str, *, status: int) -> Denial:
    """Return the denial of a request whose body would have had to be read to decide, and was not."""
    exchange.held, exchange.line.reason = False, reason
    line = exchange.line
    return Denial(status=status, reason=reason, host=line.host, method=line.method, path=line.path)


def too_large(exchange: Exchange) -> Denial:
    """Return the denial of a body that grew beyond what was allowed to follow."""
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
    """Build the response that tells the client of `denial`, in the form it asked for."""
    rendered = page(denial, flow.request.headers.get("accept", ""))
    body = b"" if flow.request.data.method == b"HEAD" else rendered.body
    # What could not be read leaves doubt about where the next request begins.
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
    """Return a denial without words."""
    fields = ((b"x-agent-sandbox", b"blocked"), (b"content-length", b"0"))
    return http.Response(b"HTTP/1.1", 403, b"Forbidden", http.Headers(fields), b"", None, 0.0, None)


# What stands on every flow until it is decided. One for all: to build it anew cost a fifteenth of each request.
NOT_DECIDED = blank_denial()


def failure(flow: http.HTTPFlow, why: NotReached) -> http.Response:
    """Answer a request that was allowed and could not be forwarded: 403 for a refused address, else 502.

    What was broken off stays that: it is why there is no server.
    """
    exchange = exchange_of(flow)
    if exchange is not None and exchange.broken_off is not None:
        return answer(flow, exchange.broken_off)
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
