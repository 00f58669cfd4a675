"""Decides each request: the head of every HTTP/1 message and of every HTTP/2 stream."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mitmproxy import http

from agent_sandbox.policy import (
    Ambiguous,
    Cause,
    Decision,
    Effect,
    Policy,
    Request,
    advise,
    awaits_operation,
    decide,
    decide_with_secrets,
)
from agent_sandbox.policy.asker import Asker
from agent_sandbox.policy.bounds import MAX_PATH
from agent_sandbox.policy.graphqlbody import with_body, with_doubt
from agent_sandbox.proxy.adapter import MismatchError, authority, to_request
from agent_sandbox.proxy.denial import UNDECIDED, Denial
from agent_sandbox.proxy.fields import NotWebSocketError, check_expect, forwarded, wants_websocket
from agent_sandbox.proxy.holding import Holding
from agent_sandbox.proxy.hooks import hook
from agent_sandbox.proxy.injector import Filling, Injector, WithoutSecretError
from agent_sandbox.proxy.ledger import NOT_DECIDED, Ledger, answer, ledger_of, not_read, open_ledger
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.probes import event_of_denial
from agent_sandbox.proxy.tunnel import Tunnel

LIMITS = Limits()


class Enforcer:
    """Denies first; only a decision that allows lifts it. So a fault or a cancellation leaves a denial."""

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        policy: Callable[[], Policy],
        *,
        clock: Callable[[], float],
        limits: Limits = LIMITS,
        fitting: Callable[[Request, Policy], Sequence[str]] = lambda *_: (),
        asker: Callable[[Request], Asker | None] = lambda _: None,
        injector: Injector | None = None,
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._holding = Holding(limits, clock=clock)
        self._fitting = fitting
        self._asker = asker
        self._injector = injector or Injector(None)

    @hook
    def requestheaders(self, flow: http.HTTPFlow, tunnel: Tunnel) -> None:
        """Deny, decide, and lift the denial if the policy says so."""
        ledger = open_ledger(flow, client=tunnel.client, started=self._clock())
        _describe(ledger, flow, tunnel)
        flow.request.stream = False
        flow.response = NOT_DECIDED
        ledger.line.reason = UNDECIDED.reason
        if flow.error is not None:
            ledger.line.reason = f"malformed: {flow.error.msg}"
            return
        self._decide(flow, ledger, tunnel, body=None)

    @hook
    def request(self, flow: http.HTTPFlow, tunnel: Tunnel) -> None:
        """Decide what waited for its body, by the policy that is in force now."""
        ledger = ledger_of(flow)
        if ledger is not None and ledger.held:
            self._decide(flow, ledger, tunnel, body=flow.request.raw_content or b"")

    def _decide(self, flow: http.HTTPFlow, ledger: Ledger, tunnel: Tunnel, *, body: bytes | None) -> None:
        policy = self._policy()
        try:
            request = to_request(flow, tunnel, policy)
            ledger.websocket = wants_websocket(flow.request)
            check_expect(flow.request)
        except (Ambiguous, NotWebSocketError) as doubt:
            _refuse(flow, ledger, doubt)
            return
        ledger.line.scheme, ledger.line.path = request.scheme, request.path
        request = request if body is None else with_body(request, body)
        if tunnel.refused is None and awaits_operation(policy, request):
            request = with_doubt(request)
            if request.operation is None:
                self._hold(flow, ledger)
                return
        request, decision, put_in = self._answer(policy, request, flow, ledger)
        if decision.allowed:
            decision = tunnel.refused or decision
        if decision.allowed:
            _rewrite(flow.request, request, websocket=ledger.websocket)
            if isinstance(put_in, Filling):
                flow.request.data.headers.fields = put_in.into(flow.request.data.headers.fields)
                ledger.echoes = put_in.echoes
            ledger.request, ledger.sent.limit = request, decision.max_body
            _allow(flow, ledger, decision)
        else:
            ledger.line.event = event_of_denial(request, tunnel)
            asker = self._asker(request)
            ledger.line.tool = asker.tool if asker else ""
            if isinstance(put_in, WithoutSecretError):
                advice = put_in.hint
            else:
                advice = advise(request, decision, services=self._fitting(request, policy), asker=asker)
            _tell(flow, ledger, _denial(request, decision, policy.settings.block_status, advice), decision)

    def _answer(
        self, policy: Policy, request: Request, flow: http.HTTPFlow, ledger: Ledger
    ) -> tuple[Request, Decision, Filling | WithoutSecretError | None]:
        """Decide, and return what is put in, or why it is not; then it goes as it is where the policy lets it."""
        decision, injection = decide_with_secrets(policy, request)
        if injection is None:
            return request, decision, None
        try:
            self._injector.check_authorities(policy.settings.upstream)
            filling = self._injector.filling(injection, request, flow.request, websocket=ledger.websocket)
        except WithoutSecretError as why:
            plain = decide(policy, request)
            denial = replace(decision, effect=Effect.DENY, reason=str(why), cause=Cause.INJECTION)
            return request, plain if plain.allowed else denial, why
        return request._replace(secrets=True), replace(decision, reason=f"{decision.reason}, with {injection}"), filling

    def _hold(self, flow: http.HTTPFlow, ledger: Ledger) -> None:
        """Leave the denial as it stands until the body is there."""
        ledger.line.reason = "the body that was to be read did not come to its end"
        if not self._holding.admits(ledger):
            _deny(flow, not_read(ledger, "too many bodies are being read at once", status=429))


def _allow(flow: http.HTTPFlow, ledger: Ledger, decision: Decision) -> None:
    ledger.line.decision, ledger.line.rule, ledger.line.reason = "allow", decision.rule, decision.reason
    flow.request.stream = ledger.sent
    flow.response = None


def _deny(flow: http.HTTPFlow, denial: Denial) -> None:
    # A client that asks before it sends a body gets its answer, and is not told to go on.
    flow.request.headers.pop("expect", None)
    flow.response = answer(flow, denial)


def _tell(flow: http.HTTPFlow, ledger: Ledger, denial: Denial, decision: Decision) -> None:
    ledger.line.rule, ledger.line.reason, ledger.line.cause = decision.rule, decision.reason, str(decision.cause)
    _deny(flow, denial)


def _refuse(flow: http.HTTPFlow, ledger: Ledger, doubt: ValueError) -> None:
    clear = isinstance(doubt, (MismatchError, NotWebSocketError))
    line = ledger.line
    line.reason = str(doubt) if clear else f"ambiguous: {doubt}"
    status = 403 if clear else 400
    _deny(flow, Denial(status=status, reason=line.reason, host=line.host, method=line.method, path=line.path))


def _describe(ledger: Ledger, flow: http.HTTPFlow, tunnel: Tunnel) -> None:
    data, line = flow.request.data, ledger.line
    line.host = tunnel.host or data.host
    line.port = tunnel.port or data.port
    line.method = data.method[:MAX_PATH].decode("ascii", "backslashreplace")
    line.path = data.path[:MAX_PATH].partition(b"?")[0].decode("ascii", "backslashreplace")


def _denial(request: Request, decision: Decision, status: int, advice: str) -> Denial:
    return Denial(
        status=status,
        reason=decision.reason,
        host=request.host,
        method=request.method,
        path=request.path,
        rule=decision.rule,
        near_miss=decision.near_miss,
        hint=advice,
    )


def _rewrite(written: http.Request, decided: Request, *, websocket: bool) -> None:
    """Make what is forwarded be what was decided."""
    named = authority(decided)
    data = written.data
    data.headers.fields = forwarded(written, named, websocket=websocket)
    data.host, data.port, data.scheme = decided.host, decided.port, decided.scheme.encode()
    data.path = decided.target.encode("ascii")
    data.authority = named.encode() if written.is_http2 else b""
