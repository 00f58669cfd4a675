"""Decide each request: the head of every HTTP/1 message and of every HTTP/2 stream."""

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
from agent_sandbox.policy.explain.package_manager import PackageManager
from agent_sandbox.policy.http.bounds import MAX_PATH
from agent_sandbox.policy.http.graphql_body import with_body, with_doubt
from agent_sandbox.proxy.decide.adapter import MismatchError, authority, to_request
from agent_sandbox.proxy.decide.probes import event_of_denial
from agent_sandbox.proxy.exchange.body_quota import BodyQuota
from agent_sandbox.proxy.exchange.denial import UNDECIDED, Denial
from agent_sandbox.proxy.exchange.exchange import NOT_DECIDED, Exchange, answer, exchange_of, not_read, open_exchange
from agent_sandbox.proxy.exchange.hooks import hook
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.injector import Filling, Injector, WithoutSecretError
from agent_sandbox.proxy.tunnel import Tunnel
from agent_sandbox.proxy.wire.header_fields import NotWebSocketError, check_expect, forwarded, wants_websocket

LIMITS = Limits()


class Enforcer:
    """Sets a denial first, and lifts it only on an allow decision: after an error or a cancellation it stays denied."""

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        policy: Callable[[], Policy],
        *,
        clock: Callable[[], float],
        limits: Limits = LIMITS,
        matching_services: Callable[[Request, Policy], Sequence[str]] = lambda *_: (),
        package_manager: Callable[[Request], PackageManager | None] = lambda _: None,
        injector: Injector | None = None,
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._holding = BodyQuota(limits, clock=clock)
        self._matching_services = matching_services
        self._package_manager = package_manager
        self._injector = injector or Injector(None)

    @hook
    def requestheaders(self, flow: http.HTTPFlow, tunnel: Tunnel) -> None:
        """Set a denial, decide, and lift the denial if the policy allows the request."""
        exchange = open_exchange(flow, client=tunnel.client, started=self._clock())
        _describe(exchange, flow, tunnel)
        flow.request.stream = False
        flow.response = NOT_DECIDED
        exchange.line.reason = UNDECIDED.reason
        if flow.error is not None:
            exchange.line.reason = f"malformed: {flow.error.msg}"
            return
        self._decide(flow, exchange, tunnel, body=None)

    @hook
    def request(self, flow: http.HTTPFlow, tunnel: Tunnel) -> None:
        """Decide a request that waited for its body, with the policy now in force."""
        exchange = exchange_of(flow)
        if exchange is not None and exchange.held:
            self._decide(flow, exchange, tunnel, body=flow.request.raw_content or b"")

    def _decide(self, flow: http.HTTPFlow, exchange: Exchange, tunnel: Tunnel, *, body: bytes | None) -> None:
        policy = self._policy()
        try:
            request = to_request(flow, tunnel, policy)
            exchange.websocket = wants_websocket(flow.request)
            check_expect(flow.request)
        except (Ambiguous, NotWebSocketError) as doubt:
            _refuse(flow, exchange, doubt)
            return
        exchange.line.scheme, exchange.line.path = request.scheme, request.path
        request = request if body is None else with_body(request, body)
        if tunnel.refused is None and awaits_operation(policy, request):
            request = with_doubt(request)
            if request.operation is None:
                self._hold(flow, exchange)
                return
        request, decision, put_in = self._answer(policy, request, flow, exchange)
        if decision.allowed:
            decision = tunnel.refused or decision
        if decision.allowed:
            _rewrite(flow.request, request, websocket=exchange.websocket)
            if isinstance(put_in, Filling):
                flow.request.data.headers.fields = put_in.into(flow.request.data.headers.fields)
                exchange.echoes = put_in.echoes
            exchange.request, exchange.sent.limit = request, decision.max_body
            _allow(flow, exchange, decision)
        else:
            exchange.line.event = event_of_denial(request, tunnel)
            package_manager = self._package_manager(request)
            exchange.line.tool = package_manager.tool if package_manager else ""
            if isinstance(put_in, WithoutSecretError):
                advice = put_in.hint
            else:
                advice = advise(
                    request,
                    decision,
                    services=self._matching_services(request, policy),
                    package_manager=package_manager,
                )
            _tell(flow, exchange, _denial(request, decision, policy.settings.block_status, advice), decision)

    def _answer(
        self, policy: Policy, request: Request, flow: http.HTTPFlow, exchange: Exchange
    ) -> tuple[Request, Decision, Filling | WithoutSecretError | None]:
        """Decide, and return what to inject or why it cannot be injected.

        Without the secret, the request is allowed only if the policy allows it as it is.
        """
        decision, injection = decide_with_secrets(policy, request)
        if injection is None:
            return request, decision, None
        try:
            self._injector.check_authorities(policy.settings.upstream)
            filling = self._injector.filling(injection, request, flow.request, websocket=exchange.websocket)
        except WithoutSecretError as why:
            plain = decide(policy, request)
            denial = replace(decision, effect=Effect.DENY, reason=str(why), cause=Cause.INJECTION)
            return request, plain if plain.allowed else denial, why
        return request._replace(secrets=True), replace(decision, reason=f"{decision.reason}, with {injection}"), filling

    def _hold(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        """Leave the request denied until its body is complete."""
        exchange.line.reason = "the request body, needed for the decision, did not arrive"
        if not self._holding.admits(exchange):
            _deny(flow, not_read(exchange, "too many request bodies are being read at once", status=429))


def _allow(flow: http.HTTPFlow, exchange: Exchange, decision: Decision) -> None:
    exchange.line.decision, exchange.line.rule, exchange.line.reason = "allow", decision.rule, decision.reason
    flow.request.stream = exchange.sent
    flow.response = None


def _deny(flow: http.HTTPFlow, denial: Denial) -> None:
    # Without `Expect`, mitmproxy does not send 100 Continue before the denial.
    flow.request.headers.pop("expect", None)
    flow.response = answer(flow, denial)


def _tell(flow: http.HTTPFlow, exchange: Exchange, denial: Denial, decision: Decision) -> None:
    exchange.line.rule, exchange.line.reason, exchange.line.cause = decision.rule, decision.reason, str(decision.cause)
    _deny(flow, denial)


def _refuse(flow: http.HTTPFlow, exchange: Exchange, doubt: ValueError) -> None:
    clear = isinstance(doubt, (MismatchError, NotWebSocketError))
    line = exchange.line
    line.reason = str(doubt) if clear else f"ambiguous: {doubt}"
    status = 403 if clear else 400
    _deny(flow, Denial(status=status, reason=line.reason, host=line.host, method=line.method, path=line.path))


def _describe(exchange: Exchange, flow: http.HTTPFlow, tunnel: Tunnel) -> None:
    data, line = flow.request.data, exchange.line
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
    """Write `decided` into `written`: the request that is forwarded is the one that was decided."""
    named = authority(decided)
    data = written.data
    data.headers.fields = forwarded(written, named, websocket=websocket)
    data.host, data.port, data.scheme = decided.host, decided.port, decided.scheme.encode()
    data.path = decided.target.encode("ascii")
    data.authority = named.encode() if written.is_http2 else b""
