"""One request with its response: what was asked, what was decided, what passed, and the audit record of all that."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Cause, Decision, Effect, Request
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.rule_set import Budgeted
from agent_sandbox.policy.explain.advice import APPLY
from agent_sandbox.policy.http.addresses import PUBLIC_ALONE
from agent_sandbox.policy.http.bounds import MAX_MESSAGE, MAX_OPERATION, MAX_PATH, too_large
from agent_sandbox.proxy.audit.hints import encoded_size
from agent_sandbox.proxy.audit.record import AuditRecord, SecretUse
from agent_sandbox.proxy.exchange.denial import UNDECIDED, Denial, Page, page
from agent_sandbox.proxy.exchange.tool_list import why_not_filtered
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.secrets.redactable import why_unreadable
from agent_sandbox.proxy.secrets.redaction import NO_ECHOES, Echoes, Redactor
from agent_sandbox.proxy.secrets.unpacking import Stage, Unpacking
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.upstream.dialler import NotReached, Refused
from agent_sandbox.proxy.wire.message import Fields, RequestHead, ResponseHead, names_of, value_of

if TYPE_CHECKING:
    from agent_sandbox.proxy.exchange.tool_list import BodyFilter
    from agent_sandbox.proxy.secrets.error_code import ErrorCode

# The status for a secret whose source gives no value: not a denial that the policy could change.
NO_VALUE = 502
# The status for a refused credential. A 403 may be about the request.
REFUSED = 401
# A page of a hundred pull requests is about 300 KiB.
MAX_COPY = 1024 * 1024
OVER_BUDGET = 429
PROXY_CREDENTIALS = 407
# Shorter URLs have no part that could look like encoded data.
LONG_URL = 160


class OverBudget(Struct, frozen=True):
    """A budget that has no room: the reason for the denial, and in how many seconds it resets."""

    reason: str
    seconds: int


# Counts an amount of `requests`, `upload` or `download` against budgets; returns what it exceeds, if anything.
Spend = Callable[[str, int], OverBudget | None]


def spend_freely(_kind: str, _amount: int) -> None:
    """Count nothing: there is no budget."""


class OverBudgetError(Exception):
    """A budget is used up while a body streams."""

    def __init__(self, over: OverBudget) -> None:
        super().__init__(over.reason)
        self.over = over


class Meter(Struct):
    """Counts the bytes of a body and passes it on chunk by chunk. `limit` is in bytes."""

    count: int = 0
    limit: int | None = None
    unpacking: Unpacking | None = None
    redactor: Redactor | None = None
    # Set for a response whose size counts against a budget.
    spend: Spend = spend_freely
    # For a response that may list the tools of an MCP server, or hand out credentials for large files. Each gets what
    # the one before it returns.
    filters: "tuple[BodyFilter, ...]" = ()
    # A copy of the forwarded data, if one is needed; it is dropped when it exceeds MAX_COPY.
    copied: bytearray | None = None

    def takes(self, size: int) -> bool:
        """Return whether `size` more bytes are within the limit."""
        return self.limit is None or self.count + size <= self.limit

    def __call__(self, data: bytes) -> bytes:
        """Return all pieces of `data`, for a body that costs little, such as one that only is counted."""
        return b"".join(self.pieces(data))

    async def ready(self) -> None:
        """Wait until the body can be decompressed, if it is."""
        if self.unpacking is not None:
            await self.unpacking.ready()

    @property
    def changes(self) -> bool:
        """Whether the body is redacted or filtered, so that a turn must be taken before each piece."""
        return self.redactor is not None or bool(self.filters)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Count `data` and yield it, redacted and filtered if need be.

        Each piece takes bounded work; some are empty. Raises UnpackError and OverBudgetError.
        """
        self.count += len(data)
        if over := self.spend("download", len(data)):
            raise OverBudgetError(over)
        yield from self._through(self._stages, data)

    def rest(self) -> Iterator[bytes]:
        """Yield what was held back until the end of the body, as `pieces` does."""
        stages = self._stages
        for number, part in enumerate(stages, 1):
            if part is not self.unpacking or self.count:
                yield from self._through(stages[number:], part.end())

    @property
    def _stages(self) -> Sequence[Stage]:
        return [part for part in (self.unpacking, self.redactor, *self.filters) if part is not None]

    @property
    def holds_head(self) -> bool:
        """Whether nothing must be sent before the body was filtered."""
        return any(one.holds_head for one in self.filters)

    def close(self) -> None:
        """Free what the body holds, however it ended, without waiting for a garbage collection."""
        for part in (self.unpacking, *self.filters):
            if part is not None:
                part.close()

    def _through(self, stages: Sequence[Stage], data: bytes) -> Iterator[bytes]:
        """Yield what the stages make of data. They yield empty pieces to hand back."""
        if stages and data:
            for piece in stages[0].feed(data):
                yield from self._through(stages[1:], piece)
            return
        if self.copied is not None:
            self.copied += data
            self.copied = self.copied if len(self.copied) <= MAX_COPY else None
        yield data


class Outcome(Struct, frozen=True):
    """What was decided about a request, as its audit record reports it."""

    effect: Effect
    reason: str
    rule: str | None = None
    cause: str = ""


NOT_DECIDED = Outcome(Effect.DENY, UNDECIDED.reason)


class BodyLimit(Struct, frozen=True, kw_only=True):
    """The largest body that is buffered, in bytes, and the reason for the denial of a larger one."""

    size: int
    reason: str


# A body that is decided as a GraphQL operation.
OPERATION = BodyLimit(size=MAX_OPERATION, reason=too_large(MAX_OPERATION))
# A body that is decided as an MCP message.
MESSAGE = BodyLimit(size=MAX_MESSAGE, reason=too_large(MAX_MESSAGE))


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class Exchange:
    """One request with its response. It is denied until `allow` is called.

    `scheme`, `host`, `port`, `method` and `path` say what is asked for: as the head spells it, and in canonical form
    once it was parsed. Denials and the audit record take them from here.
    """

    head: RequestHead
    client: str
    started: float
    scheme: str = ""
    host: str
    port: int
    method: str
    path: str
    # Set once the request waits, or has waited, for a person.
    waiting: Waiting | None = None
    # Why the head is malformed, if it is.
    malformed: str = ""
    # The request body while it is being decided, if the decision needs it.
    body: bytes = field(default=b"", repr=False)
    # Whether the body is buffered because the decision needs it. Until then the request counts as denied.
    held: bool = False
    body_limit: BodyLimit = OPERATION

    event: Event = Event.REQUEST
    outcome: Outcome = NOT_DECIDED
    tool: str = ""
    # The response to a denied request.
    answer: Page | None = None
    # Set once the request is allowed: the request that was decided, and its head as it goes to the server.
    request: Request | None = None
    forwarded: RequestHead | None = None
    websocket: bool = False
    # The MCP message, as far as it was read: as text for the audit record, and its id for the response to a denial.
    mcp: str = ""
    mcp_id: str | int | None = None
    # Whether the client may call a tool: set if the response may list the tools of an MCP server.
    shows_tool: Callable[[str], bool] | None = None
    # What echoes of the injected secrets look like.
    echoes: Echoes = field(default=NO_ECHOES, repr=False)
    # Whether only a signature's session token is sent: successful responses, which can be large, are not searched.
    only_token: bool = False
    secrets: tuple[SecretUse, ...] = ()
    # Counts against the budgets of the request, and what makes that from budgets: a new policy may have others.
    spend: Spend = spend_freely
    spender: Callable[[Sequence[Budgeted]], Spend] = lambda _: spend_freely
    # Why an allowed request was aborted.
    aborted: Denial | None = None

    # The head of the response, and that head as it goes to the client: None if it must not.
    response: ResponseHead | None = None
    returned: ResponseHead | None = None
    trailers: Fields | None = None
    # Finds out whether a response with an error other than 401 refuses a secret.
    error_code: "ErrorCode | None" = None
    # The status that the client got, and why the exchange ended early.
    status: int | None = None
    error: str = ""
    # Whether it was allowed, but could not be forwarded.
    failed: bool = False
    sent: Meter = field(default_factory=Meter)
    received: Meter = field(default_factory=Meter)
    written: bool = False

    @property
    def waits(self) -> bool:
        """Whether the request waits for a person."""
        return self.waiting is not None and not self.waiting.over

    @property
    def grants(self) -> tuple[Rule, ...]:
        """What a person granted to this request alone."""
        return (self.waiting.grant,) if self.waiting is not None and self.waiting.grant is not None else ()

    @property
    def allowed(self) -> bool:
        """Whether the request is allowed. It may have been aborted since."""
        return self.outcome.effect is Effect.ALLOW

    @property
    def refuses_secret(self) -> bool:
        """Whether the server refused the secret of the request."""
        return self.status == REFUSED or (self.error_code is not None and self.error_code.is_found)

    def allow(  # noqa: PLR0913 - what was decided, and what is injected
        self,
        decision: Decision,
        request: Request,
        forwarded: RequestHead,
        *,
        echoes: Echoes = NO_ECHOES,
        only_token: bool = False,
        secrets: tuple[SecretUse, ...] = (),
    ) -> None:
        """Allow the request: `forwarded` is sent to the server, with these secrets."""
        self.outcome = Outcome(Effect.ALLOW, decision.reason, decision.rule)
        self.request, self.echoes, self.sent.limit = request, echoes, decision.max_body
        self.forwarded, self.secrets, self.only_token = forwarded, secrets, only_token

    def answer_here(self, page: Page, reason: str) -> None:
        """Answer an allowed request with `page`. Nothing is forwarded."""
        self.forwarded = None
        self.outcome = Outcome(Effect.ALLOW, reason)
        self.answer = self._for_client(page)

    def deny(self, denial: Denial, *, cause: str = "") -> None:
        """Answer the request with `denial`."""
        self.forwarded = None
        self.outcome = Outcome(Effect.DENY, denial.reason, denial.rule, cause)
        self.answer = self.render(denial)

    def abort(self, denial: Denial, *, cause: str = "") -> None:
        """Record that an allowed request is now denied. A record that was already written is followed by a second."""
        self.aborted, self.written, self.event = denial, False, Event.REQUEST
        self.forwarded, self.held = None, False
        self.outcome = Outcome(Effect.DENY, denial.reason, self.outcome.rule, cause)

    def denial(
        self, reason: str, *, status: int = 403, rule: str | None = None, near_miss: str = "", hint: str = ""
    ) -> Denial:
        """Return a denial of what is asked for."""
        return Denial(
            reason=reason,
            status=status,
            host=self.host,
            method=self.method,
            path=self.path,
            rule=rule,
            near_miss=near_miss,
            hint=hint,
            is_mcp=bool(self.mcp),
            mcp_id=self.mcp_id,
        )

    def render(self, denial: Denial) -> Page:
        """Return the response for `denial`, in the format that the client accepts."""
        rendered = self._for_client(page(denial, value_of(self.head.fields, b"accept")))
        if rendered.status == 400 and not self.head.is_http2:
            # After a malformed request it is unclear where the next one begins.
            rendered = replace(rendered, fields=(*rendered.fields, (b"connection", b"close")))
        return rendered

    def _for_client(self, rendered: Page) -> Page:
        return replace(rendered, body=b"") if self.head.method == b"HEAD" else rendered

    def not_read(self, reason: str, *, status: int) -> Denial:
        """Return the denial of a request whose body was needed for the decision but could not be read."""
        self.held, self.outcome = False, replace(self.outcome, reason=reason)
        return self.denial(reason, status=status)

    def echoes_in(self, status: int) -> Echoes:
        """Return what to search a response with this status for."""
        return NO_ECHOES if self.only_token and 200 <= status < 300 else self.echoes

    def why_unforwardable(self, status: int, fields: Fields) -> str:
        """Return why a response with this head cannot be redacted or filtered, or misleads; "" if it can be sent."""
        if status == PROXY_CREDENTIALS and self.scheme == "http":
            return "it asks for the credentials of a proxy (407), which a client would take for a request of this one"
        echoes = self.echoes_in(status)
        why = why_unreadable(fields) if echoes or self.shows_tool else ""
        if why and echoes:
            return f"{why}, so an echo of the injected secret could not be redacted"
        if self.shows_tool is None:
            return ""
        return why_not_filtered(status, fields, why)

    def too_large(self) -> Denial:
        """Return the denial of a request whose body exceeds `max_body`."""
        rule = self.outcome.rule
        reason = f"the body is larger than the {self.sent.limit} bytes that {rule} allows"
        return self.denial(reason, status=413, rule=rule, hint=f"raise `max_body` at {rule}, {APPLY}")

    def refuse_data(self, size: int) -> Denial | None:
        """Count data of the request body, or return the denial if it must not be sent."""
        if not self.sent.takes(size):
            denial = self.too_large()
            self.abort(denial)
            return denial
        over = self.spend("upload", size)
        return self.over_budget(over) if over else None

    def over_budget(self, over: OverBudget) -> Denial:
        """Record that a budget is used up, and return the denial."""
        denial = self.over_denial(over, self.outcome.rule)
        self.abort(denial, cause=str(Cause.BUDGET))
        return denial

    def over_denial(self, over: OverBudget, rule: str | None) -> Denial:
        """Return the denial of what exceeds a budget."""
        return replace(self.denial(over.reason, status=OVER_BUDGET, rule=rule), retry_seconds=over.seconds)

    def failure(self, why: NotReached) -> Denial:
        """Return the answer to an allowed request that could not be forwarded: 403 for a refused address, else 502.

        If the request was aborted, return that denial instead.
        """
        if self.aborted is not None:
            return self.aborted
        refused = isinstance(why, Refused)
        effect, cause = (Effect.DENY, "address") if refused else (Effect.ALLOW, "")
        self.outcome = Outcome(effect, str(why), self.outcome.rule, cause)
        self.failed = not refused
        return self.denial(str(why), status=403 if refused else 502, hint=PUBLIC_ALONE if refused else "")

    def record(self, *, now: float) -> AuditRecord:
        """Return the audit record of the exchange, which has ended."""
        outcome = self.outcome
        broken_off = self.allowed and self.error
        return AuditRecord(
            event=self.event,
            decision=outcome.effect,
            rule=outcome.rule,
            cause=outcome.cause,
            reason=f"{outcome.reason}; aborted: {self.error}" if broken_off else outcome.reason,
            scheme=self.scheme,
            host=self.host,
            port=self.port,
            method=self.method,
            path=self.path,
            status=self.status,
            bytes_in=self.received.count,
            bytes_out=self.sent.count,
            duration_ms=(now - self.started) * 1000,
            client=self.client,
            tool=self.tool,
            mcp=self.mcp,
            headers=names_of(self.head.fields),
            secrets=self.secrets,
            encoded=_encoded_size(self.request) if self.request else 0,
            failed=self.failed,
        )


def _encoded_size(request: Request) -> int:
    if len(request.path) + len(request.query) < LONG_URL:
        return 0
    return encoded_size(request.path, request.query)


def open_exchange(head: RequestHead, tunnel: Tunnel, *, started: float) -> Exchange:
    """Return the exchange that `head`, received through `tunnel`, begins. It is denied until it is decided."""
    return Exchange(
        head=head,
        client=tunnel.client,
        started=started,
        host=tunnel.host or head.host,
        port=tunnel.port or head.port,
        method=head.method[:MAX_PATH].decode("ascii", "backslashreplace"),
        path=head.target[:MAX_PATH].partition(b"?")[0].decode("ascii", "backslashreplace"),
    )
