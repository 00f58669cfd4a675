"""Requests that wait for a person: asked once, for a limited time, and few at once. It runs in the traffic loop."""

from asyncio import TimerHandle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256

from msgspec import Struct

from agent_sandbox.policy import Cause, Decision, Policy, Request, decide
from agent_sandbox.policy.explain.offer import Offer, offer_for
from agent_sandbox.proxy.ask.grant_book import GrantBook, Later, Scope, later
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.exchange.waiting import Waiting
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.message import names_of

UNLISTED = frozenset({Cause.HOST, Cause.EMPTY})
NO_ANSWER = "a person was asked and did not answer"
DENIED = "a person was asked and denied it"
UNWATCHED = "nobody was asked, because no `agent-sandbox watch` is running"
CROWDED = "nobody was asked, because too many requests wait for a person"
LEFT = "the client left before a person answered"
ALREADY_DENIED = "a person denied a request to this host in the last 10 minutes"
DENIED_SECONDS = 600.0
REMEMBERED = 1_000  # hosts that a person denied


def _key(request: Request, *, websocket: bool) -> bytes:
    """Return what equal requests have in common; a hash, because a path can be long."""
    place = (request.scheme, request.host, request.port)
    asked = (*place, request.method, request.target, request.body_size, websocket)
    return sha256(repr(asked).encode()).digest()


class Question(Struct, kw_only=True, eq=False):
    """One question, and the equal requests that wait for its answer, the oldest first."""

    id: int
    key: bytes
    request: Request
    offer: Offer
    reason: str
    services: Sequence[str]
    tool: str
    client: str
    headers: str
    websocket: bool
    http2: bool
    asked: float
    timer: TimerHandle
    waiting: list[Waiting] = []


class Questions:
    """The open questions, about the requests that `settings.ask` or a watcher selects.

    `watched` returns whether somebody could answer, `asking` whether somebody wants questions about unlisted hosts
    although the policy has no `settings.ask`. `on_change` is called after each change.
    """

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        policy: Callable[[], Policy],
        grants: GrantBook,
        *,
        watched: Callable[[], bool],
        asking: Callable[[], bool],
        on_change: Callable[[], None],
        clock: Callable[[], float],
        limits: Limits,
        later: Later = later,
    ) -> None:
        self._policy = policy
        self._grants = grants
        self._watched = watched
        self._asking = asking
        self._on_change = on_change
        self._clock = clock
        self._limits = limits
        self._later = later
        self._open: dict[bytes, Question] = {}
        self._denied: OrderedDict[str, float] = OrderedDict()
        self._last_id = 0

    def __iter__(self) -> Iterator[Question]:
        return iter(self._open.values())

    def ask(
        self,
        exchange: Exchange,
        request: Request,
        decision: Decision,
        policy: Policy,
        *,
        services: Callable[[], Sequence[str]] = tuple,
    ) -> str:
        """Make the denied request wait for a person, or return why nobody is asked; "" if it is not to be asked about.

        The request waits if `exchange.waits` is true afterwards.
        """
        if not self._asks_about(decision, policy):
            return ""
        # Before the offer, which takes longest: these end floods.
        if self._denied.get(request.host, 0.0) > self._clock():
            return ALREADY_DENIED
        if self._watched() and sum(len(question.waiting) for question in self) >= self._limits.questions:
            return CROWDED
        offer = offer_for(request, policy)
        if offer is None:
            return ""
        if not self._watched():
            return UNWATCHED
        key = _key(request, websocket=exchange.websocket)
        question = self._open.get(key)
        if question is None:
            self._last_id += 1
            question = self._open[key] = Question(
                id=self._last_id,
                key=key,
                request=request,
                offer=offer,
                reason=decision.reason,
                services=services(),
                tool=exchange.tool,
                client=exchange.client,
                headers=names_of(exchange.head.fields),
                websocket=exchange.websocket,
                http2=exchange.head.is_http2,
                asked=self._clock(),
                timer=self._later(policy.settings.ask_timeout, partial(self._time_out, key)),
            )
        waiting = exchange.waiting = Waiting(leave=lambda: self._leave(question, waiting))
        question.waiting.append(waiting)
        self._on_change()
        return ""

    def would_ask(self, host: str, port: int, decision: Decision) -> bool:
        """Return whether a person would be asked about a request to this host, which `decision` denies."""
        policy = self._policy()
        if not self._asks_about(decision, policy) or not self._watched():
            return False
        request = Request(scheme="https", host=host, port=port, method="GET", path="/", query="")
        return self._denied.get(host, 0.0) <= self._clock() and offer_for(request, policy) is not None

    def about(self, policy: Policy) -> str:
        """Return which requests wait for a person; "" for none."""
        said = policy.settings.ask
        # `ask: false` in the policy wins over watchers; they decide only if it says nothing.
        wanted = self._asking() and "unlisted" not in said and (said or "ask" not in policy.rules.settings)
        return ", ".join(filter(None, (said, "unlisted"))) if wanted else said

    def _asks_about(self, decision: Decision, policy: Policy) -> bool:
        return decision.cause is Cause.ASK or (decision.cause in UNLISTED and "unlisted" in self.about(policy))

    def answer(self, number: int, scope: Scope, *, who: str, seconds: float | None = None) -> str:
        """Answer a question; return why that is not possible, or an empty string."""
        question = next((one for one in self if one.id == number), None)
        if question is None:
            return "this question is closed: the client left, it was answered, or it timed out"
        if scope is Scope.DENY:
            self._remember_denial(question.request.host)
            self._grants.record_denial(question.request, who=who)
            self._close(question, DENIED)
            return ""
        if scope is Scope.ONCE:
            self._once(question, who)
            return ""
        return self._grants.add(question.offer, question.request, scope, who=who, seconds=seconds)

    def _once(self, question: Question, who: str) -> None:
        """Let the oldest request go on. The others wait on, as a new question: an answer counts for one request."""
        grant = self._grants.single(question.offer.once, question.request, who=who)
        first, *others = question.waiting
        question.waiting = others
        if others:
            self._last_id += 1
            question.id = self._last_id
        else:
            self._forget(question)
        first.end("", grant=grant)
        self._on_change()

    def review(self) -> None:
        """Let all requests go on that the policy in force decides by itself: it has changed."""
        policy = self._policy()
        for question in [*self]:
            decision = decide(policy, question.request)
            if not self._asks_about(decision, policy) or offer_for(question.request, policy) is None:
                self._close(question, "")
        self._on_change()

    def _leave(self, question: Question, waiting: Waiting) -> None:
        if waiting in question.waiting:
            question.waiting.remove(waiting)
            if not question.waiting:
                self._forget(question)
            self._on_change()
        waiting.end(LEFT)

    def _time_out(self, key: bytes) -> None:
        self._close(self._open[key], NO_ANSWER)

    def _close(self, question: Question, why: str) -> None:
        self._forget(question)
        for waiting in question.waiting:
            waiting.end(why)
        question.waiting.clear()
        self._on_change()

    def _forget(self, question: Question) -> None:
        del self._open[question.key]
        question.timer.cancel()

    def _remember_denial(self, host: str) -> None:
        self._denied[host] = self._clock() + DENIED_SECONDS
        self._denied.move_to_end(host)
        if len(self._denied) > REMEMBERED:
            self._denied.popitem(last=False)
