"""Decide each request: the head of every HTTP/1 message and of every HTTP/2 stream."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import (
    Ambiguous,
    Cause,
    Decision,
    Effect,
    Policy,
    Request,
    allows,
    awaits_operation,
    decide,
    decide_connect,
    decide_with_secrets,
)
from agent_sandbox.policy.engine.decide import awaits_message
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.rule_set import Budgeted
from agent_sandbox.policy.explain.package_manager import PackageManager
from agent_sandbox.policy.http.git_requests import git_tool
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.policy.http.mcp_message import CALL, LIST, STREAM, TOOL, McpMessage
from agent_sandbox.policy.match.injection import Injection
from agent_sandbox.proxy.ask.questions import Questions
from agent_sandbox.proxy.decide.adapter import MismatchError, authority, to_request
from agent_sandbox.proxy.decide.commit_signer import CommitSigner
from agent_sandbox.proxy.decide.known_ids import KnownIds
from agent_sandbox.proxy.decide.own_page import OwnPage
from agent_sandbox.proxy.decide.probes import event_of_denial
from agent_sandbox.proxy.decide.service_hints import advise_with
from agent_sandbox.proxy.exchange.denial import Page
from agent_sandbox.proxy.exchange.exchange import MESSAGE, NO_VALUE, OPERATION, BodyLimit, Exchange, Spend, spend_freely
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.exchange.quotas import BodyQuota
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.injector import NOTHING, Filling, Injector, WithoutSecretError
from agent_sandbox.proxy.secrets.login import Refresher, RefusedRefreshError
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.header_fields import (
    NotWebSocketError,
    check_expect,
    end_to_end,
    forwarded,
    wants_websocket,
)
from agent_sandbox.proxy.wire.message import Fields, RequestHead, value_of

LIMITS = Limits()
SIGNED_BODY = BodyLimit(
    size=1024 * 1024,
    reason="a body of more than 1024 KiB, which the proxy signs only if the client sends `x-amz-content-sha256`",
)
UPGRADE_REQUIRED = 426
ABOUT_LOGIN = "answered by the proxy: the login is refreshed on the host machine"
ABOUT_SANDBOX = "answered by the proxy: the page about this sandbox"


class Enforcer:
    """Decides each exchange, which is denied until then: after an error or a cancellation it stays denied."""

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        policy: Callable[[], Policy],
        *,
        clock: Callable[[], float],
        limits: Limits = LIMITS,
        matching_services: Callable[[Request, Policy], Sequence[str]] = lambda *_: (),
        package_manager: Callable[[Request], PackageManager | None] = lambda _: None,
        injector: Injector | None = None,
        own_page: OwnPage | None = None,
        questions: Questions | None = None,
        learns: Callable[[Exchange, Request, Decision, Policy], bool] = lambda *_: False,
        refresher: Refresher | None = None,
        secrets: Path | None = None,
        spender: Callable[[Sequence[Budgeted]], Spend] = lambda _: spend_freely,
    ) -> None:
        self._policy = policy
        self._holding = BodyQuota(limits, clock=clock)
        self._matching_services = matching_services
        self._package_manager = package_manager
        self._injector = injector or Injector(None)
        self._own_page = own_page
        self._questions = questions
        self._learns = learns
        self._refresher = refresher or Refresher(None)
        self._secrets = secrets
        self._spender = spender

    @cached_property
    def _known_ids(self) -> KnownIds:
        return KnownIds()

    @cached_property
    def _signer(self) -> CommitSigner:
        return CommitSigner(self._secrets)

    @hook
    def response(self, exchange: Exchange, _: Tunnel) -> None:
        """Learn the ids of objects from the response to a confined GraphQL operation."""
        if exchange.received.copied is not None:
            self._known_ids.learn(exchange, self._policy())

    @hook
    def requestheaders(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Decide a request by its head, unless its body is needed."""
        if exchange.malformed:
            exchange.outcome = replace(exchange.outcome, reason=f"malformed: {exchange.malformed}")
            return
        self._decide(exchange, tunnel, body=None)

    @hook
    def request(self, exchange: Exchange, tunnel: Tunnel) -> None:
        """Decide a request that waited for its body, with the policy now in force."""
        if exchange.held:
            self._decide(exchange, tunnel, body=exchange.body)

    def _decide(self, exchange: Exchange, tunnel: Tunnel, *, body: bytes | None) -> None:
        policy, head = self._policy().granting(exchange.grants), exchange.head
        kept = end_to_end(head)
        try:
            request = to_request(head, kept, tunnel, policy)
            exchange.websocket = wants_websocket(head)
            check_expect(head)
        except (Ambiguous, NotWebSocketError) as doubt:
            _refuse(exchange, doubt)
            return
        exchange.scheme, exchange.path = request.scheme, request.path
        if self._answers_itself(exchange, request, body, policy):
            return
        request = self._with_body(exchange, policy, request, body)
        decision, injection = decide_with_secrets(policy, request)
        if tunnel.refused is None and awaits_operation(policy, request, decision):
            is_mcp = awaits_message(policy, request)
            request = self._read(exchange, request, body, is_mcp=is_mcp)
            if body is None and (request.message if is_mcp else request.operation) is None:
                self._hold(exchange, MESSAGE if is_mcp else OPERATION)
                return
            decision, injection = decide_with_secrets(policy, request)
        if decision.allowed and tunnel.refused is None and self._refreshes(exchange, request, body, policy):
            return
        decision, put_in = self._inject(policy, request, exchange, decision, injection)
        if decision.allowed:
            decision = _refusal(tunnel, policy, exchange) or decision
        if decision.allowed:
            if isinstance(put_in, Filling) and put_in.reads_body and body is None:
                self._hold(exchange, SIGNED_BODY)
                return
            sent = _forwarded(head, kept, request, websocket=exchange.websocket)
            request, sent, filling = _injected(put_in, request, sent, body or b"")
            stray = self._injector.stray_placeholder(policy, sent)
            if stray is None:
                self._forward(exchange, policy, request, sent, decision, filling, body)
                return
            decision, put_in = _without(decision, stray), stray
        exchange.event = event_of_denial(request, tunnel)
        self._deny(exchange, tunnel, request, decision, policy, put_in=put_in)

    def _forward(  # noqa: PLR0913, PLR0917 - all that was decided
        self,
        exchange: Exchange,
        policy: Policy,
        request: Request,
        sent: RequestHead,
        decision: Decision,
        filling: Filling,
        body: bytes | None,
    ) -> None:
        """Allow the request, unless a budget is used up."""
        spend = self._spender(policy.budgets(request.host, request.port, request))
        if over := spend("requests", 1) or spend("upload", _size(sent, body)):
            exchange.deny(exchange.over_denial(over, decision.rule), cause=str(Cause.BUDGET))
            return
        exchange.spend, exchange.spender = spend, self._spender
        exchange.received.spend = spend
        exchange.allow(
            decision, request, sent, echoes=filling.echoes, only_token=filling.only_token, secrets=filling.uses
        )
        if request.message is not None and request.message.method in {LIST, STREAM}:
            exchange.shows_tool = partial(self._shows_tool, request, exchange.grants)
        self._expect_ids(exchange, policy)

    def _deny(  # noqa: PLR0913 - what was decided
        self,
        exchange: Exchange,
        tunnel: Tunnel,
        request: Request,
        decision: Decision,
        policy: Policy,
        *,
        put_in: Filling | WithoutSecretError | None,
    ) -> None:
        """Answer with the denial, unless the request waits for a person, or `policy learn` has granted it."""
        package_manager = self._package_manager(request)
        tool = package_manager.tool if package_manager else ""
        exchange.tool = git_tool(request) or tool
        if self._granted(exchange, request, decision, policy):
            self._decide(exchange, tunnel, body=None)
            return
        why = self._ask(exchange, request, decision, policy)
        if exchange.waits:
            return
        if why:
            decision = replace(decision, reason=f"{decision.reason}; {why}")
        status: int = policy.settings.block_status
        if isinstance(put_in, WithoutSecretError):
            advice = put_in.hint
            status = NO_VALUE if put_in.fault else status
        else:
            services = self._matching_services(request, policy)
            advice = advise_with(request, decision, services, package_manager, policy.layers)
            # Some clients then send what they wanted to send over the WebSocket in a POST.
            if exchange.websocket and allows(policy, replace(request, method="POST", secrets=True)):
                status = UPGRADE_REQUIRED
        denial = exchange.denial(
            decision.reason, status=status, rule=decision.rule, near_miss=decision.near_miss, hint=advice
        )
        exchange.deny(denial, cause=str(decision.cause))

    def _granted(self, exchange: Exchange, request: Request, decision: Decision, policy: Policy) -> bool:
        """Grant a denied request while a policy is learned; return whether the request must be decided again."""
        fits = exchange.waiting is None and not exchange.held and exchange.event is Event.REQUEST
        return fits and self._learns(exchange, request, decision, policy)

    def _ask(self, exchange: Exchange, request: Request, decision: Decision, policy: Policy) -> str:
        """Have a denied request wait for a person, or return why it does not wait; "" if that needs no reason."""
        if exchange.waiting is not None:
            return exchange.waiting.why
        if self._questions is None or exchange.event is not Event.REQUEST or exchange.held:
            return ""
        services = partial(self._matching_services, request, policy)
        return self._questions.ask(exchange, request, decision, policy, services=services)

    def _inject(
        self, policy: Policy, request: Request, exchange: Exchange, decision: Decision, injection: Injection | None
    ) -> tuple[Decision, Filling | WithoutSecretError | None]:
        """Return the decision, and what to inject or why it cannot be injected.

        Without the secret, the request is allowed only if the policy allows it as it is.
        """
        if injection is None:
            return decision, None
        try:
            _check_server(request)
            self._injector.check_authorities(policy.settings.upstream)
            filling = self._injector.filling(injection, request, exchange.head.fields)
        except WithoutSecretError as why:
            plain = decide(policy, request)
            return plain if plain.allowed else _without(decision, why), why
        what = injection if filling.uses else "the client's own credential"
        return replace(decision, reason=f"{decision.reason}, with {what}"), filling

    def _refreshes(self, exchange: Exchange, request: Request, body: bytes | None, policy: Policy) -> bool:
        """Answer a refresh request that has a placeholder, after its body arrived; return False for other requests."""
        if not self._refresher.reads(request):
            return False
        if body is None:
            self._hold(exchange)
            return True
        try:
            answer = self._refresher.answer(request, body)
        except RefusedRefreshError as why:
            status = NO_VALUE if why.fault else policy.settings.block_status
            exchange.deny(exchange.denial(str(why), status=status, hint=why.hint), cause=str(Cause.INJECTION))
            return True
        if answer is not None:
            exchange.answer_here(_json_page(answer), ABOUT_LOGIN)
        return answer is not None

    def _answers_itself(self, exchange: Exchange, request: Request, body: bytes | None, policy: Policy) -> bool:
        """Answer a request to the proxy's own name; return False for all others."""
        if request.host != OWN_HOST:
            return False
        if self._signer.answers(request):
            if body is None and request.method == "POST":
                self._hold(exchange, self._signer.body_limit)
            else:
                self._signer.answer(exchange, request, policy, body or b"")
            return True
        accept = value_of(exchange.head.fields, b"accept")
        page = self._own_page.answer(request, policy, accept) if self._own_page else None
        if page is not None:
            exchange.answer_here(page, ABOUT_SANDBOX)
        return page is not None

    def _expect_ids(self, exchange: Exchange, policy: Policy) -> None:
        if exchange.request is not None and exchange.request.operation is not None:
            self._known_ids.expect(exchange, policy)

    def _with_body(self, exchange: Exchange, policy: Policy, request: Request, body: bytes | None) -> Request:
        """Return the request with the size of its body, and with what it asks for if it was read for that."""
        if body is None:
            return request
        if exchange.body_limit in {OPERATION, MESSAGE}:
            return self._read(exchange, request, body, is_mcp=awaits_message(policy, request))
        return replace(request, body_size=len(body))

    def _read(self, exchange: Exchange, request: Request, body: bytes | None, *, is_mcp: bool) -> Request:
        """Return the request with what its body asks for, as far as that is known; None for no body yet."""
        # Most requests are decided by their heads.
        from agent_sandbox.policy.http.body import with_body, with_head  # noqa: PLC0415

        read = with_head(request) if body is None else self._known_ids.added_to(with_body(request, body))
        if not is_mcp:
            return replace(read, message=request.message)
        if exchange.websocket:
            read = replace(read, message=McpMessage(doubt="a WebSocket"))
        if read.message is not None:
            exchange.mcp, exchange.mcp_id = "ambiguous" if read.message.doubt else str(read.message), read.message.id
        return read

    def _shows_tool(self, request: Request, grants: tuple[Rule, ...], name: str) -> bool:
        """Return whether the client may call a tool where it asked for the list."""
        call = replace(request, method="POST", secrets=True, message=McpMessage(method=CALL, tool=name))
        return TOOL.fullmatch(name) is not None and allows(self._policy().granting(grants), call)

    def _hold(self, exchange: Exchange, limit: BodyLimit = OPERATION) -> None:
        """Leave the request denied until its body is complete."""
        exchange.body_limit = limit
        reason = "the request body, needed for the decision, did not arrive"
        exchange.outcome = replace(exchange.outcome, reason=reason)
        if not self._holding.admits(exchange):
            exchange.deny(exchange.not_read("too many request bodies are being read at once", status=429))


def _refusal(tunnel: Tunnel, policy: Policy, exchange: Exchange) -> Decision | None:
    """Return the denial of the tunnel, which ends when a person allows something in it."""
    if tunnel.refused is None or (exchange.waiting is None and policy.granted is None):
        return tunnel.refused
    decision = decide_connect(policy, host=tunnel.host, port=tunnel.port)
    if not decision.allowed:
        return decision
    tunnel.decision = decision
    return None


def _json_page(answer: Mapping[str, object]) -> Page:
    body = json.dumps(answer).encode()
    length = b"%d" % len(body)
    kind = (b"content-type", b"application/json")
    return Page(200, (kind, (b"content-length", length), (b"cache-control", b"no-store")), body)


def _size(head: RequestHead, body: bytes | None) -> int:
    """Return how many bytes a request sends before its streamed body: a URL or a header carries data, too."""
    fields = sum([len(name) + len(value) for name, value in head.fields])
    return len(head.method) + len(head.target) + fields + len(body or b"")


def _check_server(request: Request) -> None:
    """Raise WithoutSecretError for the proxy's own name: the keys that are bound to it only sign."""
    if request.host == OWN_HOST:
        raise WithoutSecretError("a key that signs commits is sent to no server")


def _without(decision: Decision, why: WithoutSecretError) -> Decision:
    return replace(decision, effect=Effect.DENY, reason=str(why), cause=Cause.INJECTION)


def _refuse(exchange: Exchange, doubt: ValueError) -> None:
    clear = isinstance(doubt, (MismatchError, NotWebSocketError))
    reason = str(doubt) if clear else f"ambiguous: {doubt}"
    exchange.deny(exchange.denial(reason, status=403 if clear else 400))


def _injected(
    put_in: Filling | WithoutSecretError | None, request: Request, sent: RequestHead, body: bytes
) -> tuple[Request, RequestHead, Filling]:
    if not isinstance(put_in, Filling):
        return request, sent, NOTHING
    return replace(request, secrets=True), put_in.into_request(sent, body), put_in


def _forwarded(head: RequestHead, kept: Fields, decided: Request, *, websocket: bool) -> RequestHead:
    """Return the head to send: the request that is forwarded is the one that was decided."""
    named = authority(decided)
    return RequestHead(
        method=head.method,
        target=decided.target.encode("ascii"),
        version=head.version,
        fields=forwarded(head, kept, named, websocket=websocket),
        authority=named.encode() if head.is_http2 else b"",
        host=decided.host,
        port=decided.port,
        scheme=decided.scheme.encode(),
    )
