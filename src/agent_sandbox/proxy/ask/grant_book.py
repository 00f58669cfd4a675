"""The grants in force: what a person allowed for a while, who it was, and when it ends. It runs in the traffic loop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from functools import partial

from msgspec import Struct

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Origin, Request
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.explain.offer import Offer
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition

MOST = 100
LONGEST_SECONDS = 86_400.0
CHECK_SECONDS = 30.0
FULL = f"there are {MOST} grants already: write the rule into the policy instead"


type Later = Callable[[float, Callable[[], object]], asyncio.TimerHandle]


def later(seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
    """Call a function after some time."""
    return asyncio.get_running_loop().call_later(seconds, call)


class Scope(StrEnum):
    """What an answer holds for."""

    ONCE = "once"  # this request
    TIME = "time"
    STOP = "stop"  # until the proxy stops
    DENY = "deny"


class Grant(Struct, frozen=True, kw_only=True):
    """A grant in force, with no `until` if it holds until the proxy stops.

    `until` is a time of a clock that also runs while the machine sleeps.
    """

    number: int
    rule: Rule
    text: str
    who: str
    until: float | None


class GrantBook:
    """Adds grants to the policy in force, and ends them. `review` ends what a change no longer allows."""

    def __init__(
        self,
        store: PolicyStore,
        *,
        review: Callable[[PolicyTransition], Awaitable[int]],
        record: Callable[[AuditRecord], None],
        clock: Callable[[], float],
        later: Later = later,
    ) -> None:
        self._store = store
        self._review = review
        self._record = record
        self._clock = clock
        self._later = later
        self._grants: dict[int, Grant] = {}
        self._last = 0
        self._reviews: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Grant]:
        return iter(self._grants.values())

    def single(self, conditions: Conditions, request: Request, *, who: str) -> Rule:
        """Return the rule for one request alone, and record it. It never becomes part of the policy."""
        rule = self._rule(conditions, f"once, by {who}")
        self._write(Effect.ALLOW, rule, request, f"allowed once by {who}")
        return rule

    def unrecorded(self, conditions: Conditions, reason: str) -> Rule:
        """Return such a rule without an audit record: the request has its own, with the rule."""
        return self._rule(conditions, reason)

    def add(self, offer: Offer, request: Request, scope: Scope, *, who: str, seconds: float | None) -> str:
        """Grant what the offer says; return why that is not possible, or an empty string."""
        if offer.lasting is None:
            return "no rule can express exactly this request: allow it once, or deny it"
        if len(self._grants) >= MOST:
            return FULL
        lasts = min(seconds or LONGEST_SECONDS, LONGEST_SECONDS) if scope is Scope.TIME else None
        how_long = f"for {lasts / 60:.0f} minutes" if lasts else "until the sandbox stops"
        rule = self._rule(offer.lasting, f"{how_long}, by {who}")
        until = self._clock() + lasts if lasts else None
        self._grants[self._last] = Grant(number=self._last, rule=rule, text=offer.text, who=who, until=until)
        if lasts:
            self._check_later(self._last, lasts)
        self._write(Effect.ALLOW, rule, request, f"granted {how_long} by {who}: {offer.text}")
        self._put_in_force()
        return ""

    def _check_later(self, number: int, lasts: float) -> None:
        # A timer of the event loop stops while the machine sleeps; our clock does not.
        self._later(min(lasts, CHECK_SECONDS), partial(self._check, number))

    def _check(self, number: int) -> None:
        grant = self._grants.get(number)
        if grant is None or grant.until is None:
            return
        lasts = grant.until - self._clock()
        if lasts > 0:
            self._check_later(number, lasts)
        else:
            self.end(number, "it expired")

    def end(self, number: int, why: str) -> bool:
        """End a grant and what it allowed; return whether there was one."""
        grant = self._grants.pop(number, None)
        if grant is None:
            return False
        reason = f"the grant ended, {why}: {grant.text}"
        host = grant.rule.conditions.host.name
        self._record(AuditRecord(event=Event.GRANT, rule=grant.rule.verdict.rule, reason=reason, host=host))
        self._put_in_force()
        return True

    def record_denial(self, request: Request, *, who: str) -> None:
        """Record that a person denied a request."""
        self._write(Effect.DENY, None, request, f"denied by {who}")

    def _rule(self, conditions: Conditions, reason: str) -> Rule:
        self._last += 1
        origin = Origin(file="grant", line=self._last, layer="grant")
        return Rule(effect=Effect.ALLOW, conditions=conditions, origin=origin, reason=reason)

    def _put_in_force(self) -> None:
        revision = self._store.grant(tuple(grant.rule for grant in self))
        task = asyncio.get_running_loop().create_task(self._reviewed(revision))
        self._reviews.add(task)
        task.add_done_callback(self._reviews.discard)

    async def _reviewed(self, revision: PolicyTransition) -> None:
        await self._review(revision)

    def _write(self, effect: Effect, rule: Rule | None, request: Request, reason: str) -> None:
        self._record(
            AuditRecord(
                event=Event.GRANT,
                decision=effect,
                rule=rule.verdict.rule if rule else None,
                reason=reason,
                scheme=request.scheme,
                host=request.host,
                port=request.port,
                method=request.method,
                path=request.path,
            )
        )
