"""`policy learn start --allow-for`: allow what a grant can allow, for some time. It runs in the traffic loop.

Each request is granted once, as if a person had allowed it. So a deny and a layer that restricts still win, private
addresses stay out of reach, and no secret is injected. When learning ends, so do the requests that only it allows.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakSet

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Cause, Decision, Effect, Policy, Request
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policy.http.path import readings
from agent_sandbox.printable import printable
from agent_sandbox.proxy.ask.grant_book import GrantBook, Later, later
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.control.channel import Answer
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.waiting import Waiting

if TYPE_CHECKING:
    from asyncio import TimerHandle

LONGEST_SECONDS = 8 * 3_600
LONGEST_NAME = 64
# Denied because no rule matched.
LEARNABLE = frozenset({Cause.HOST, Cause.EMPTY, Cause.REQUEST})
EXPIRED = "the time is over"


class Learning:
    """Grants requests while it is on. `end_open` ends the open requests that the policy no longer allows."""

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        grants: GrantBook,
        *,
        policy: Callable[[], Policy],
        end_open: Callable[[], None],
        record: Callable[[AuditRecord], None],
        clock: Callable[[], float],
        later: Later = later,
    ) -> None:
        self._grants = grants
        self._policy = policy
        self._end_open = end_open
        self._record = record
        self._clock = clock
        self._later = later
        self._until = 0.0
        self._who = ""
        self._timer: TimerHandle | None = None
        self._given: WeakSet[Waiting] = WeakSet()

    @property
    def seconds_left(self) -> float:
        """How long it still lasts; 0 if it is off. The clock decides, not the timer."""
        return max(0.0, self._until - self._clock())

    def verb(self, question: Mapping[str, object]) -> Answer:
        """Start for `seconds`, or end it with 0; the answer to the control socket."""
        seconds, who = question.get("seconds"), printable(str(question.get("who") or "somebody"))[:LONGEST_NAME]
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= LONGEST_SECONDS:
            return {"error": f"`seconds` must be a whole number from 0 to {LONGEST_SECONDS}"}
        if seconds:
            self._start(seconds, who)
        else:
            self.end(f"{who} ended it")
        return {"ok": True}

    def _start(self, seconds: int, who: str) -> None:
        self.end(f"{who} started it again")
        self._until, self._who = self._clock() + seconds, who
        self._timer = self._later(seconds, lambda: self.end(EXPIRED))
        minutes = "1 minute" if seconds < 90 else f"{seconds / 60:.0f} minutes"
        reason = f"learning: for {minutes}, {who} allowed what no rule denies"
        self._record(AuditRecord(event=Event.GRANT, decision=Effect.ALLOW, reason=reason))

    def end(self, why: str) -> None:
        """End it, and the requests that it allowed; do nothing if it is off."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer, self._until = None, 0.0
        for waiting in self._given:
            waiting.grant = None
        self._given.clear()
        self._record(AuditRecord(event=Event.GRANT, reason=f"learning ended: {why}"))
        self._end_open()

    def allow(self, exchange: Exchange, request: Request, decision: Decision, policy: Policy) -> bool:
        """Grant a denied request if a grant can allow it; return whether the request must be decided again."""
        if not self.seconds_left or decision.cause not in LEARNABLE or _has_secrets(policy, request.host):
            return False
        if policy.asking.why_asked(request, readings(request.path)):
            return False
        offer = offer_for(request, policy)
        if offer is None:
            return False
        exchange.waiting = Waiting(leave=_nothing)
        exchange.waiting.end("", grant=self._grants.unrecorded(offer.once, f"learning, by {self._who}"))
        self._given.add(exchange.waiting)
        return True

    def would_allow(self, host: str, port: int, decision: Decision) -> bool:
        """Return whether a request to this host could be allowed, so that its tunnel is needed."""
        if not self.seconds_left or decision.cause not in LEARNABLE:
            return False
        request = Request(scheme="https", host=host, port=port, method="GET", path="/", query="")
        return offer_for(request, self._policy()) is not None


def _has_secrets(policy: Policy, host: str) -> bool:
    """Return whether a rule injects a secret for this host: then a request without the secret needs a rule."""
    return any(rule.conditions.inject is not None for rule in policy.index.rules_for(host))


def _nothing() -> None:
    pass
