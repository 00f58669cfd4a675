"""Questions, grants and watchers, connected to the policy, the audit log and the control socket."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from math import ceil
from typing import Any

from agent_sandbox.policy import Decision, Policy, Request
from agent_sandbox.printable import printable
from agent_sandbox.proxy.ask.grant_book import Grant, GrantBook, Scope
from agent_sandbox.proxy.ask.learning import Learning
from agent_sandbox.proxy.ask.questions import Question, Questions
from agent_sandbox.proxy.ask.watchers import Watchers
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.control.channel import Answer, Stream, Verb
from agent_sandbox.proxy.exchange.exchange import Exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.secrets.store import uptime

LONGEST_PATH, LONGEST_HEADERS, LONGEST_NAME = 300, 300, 64


async def _nothing_open(_: PolicyTransition) -> int:
    return 0


async def _here(work: Coroutine[Any, Any, Answer]) -> Answer:
    return await work


type Review = Callable[[PolicyTransition], Awaitable[int]]
type InTraffic = Callable[[Coroutine[Any, Any, Answer]], Awaitable[Answer]]


class Asking:
    """Made before there are connections and a control socket, and connected to them afterwards."""

    def __init__(self, store: PolicyStore, audit_log: AuditLog, limits: Limits) -> None:
        self._reviewing: Review = _nothing_open
        self._in_traffic: InTraffic = _here
        self._store = store
        self._watchers = Watchers(self._state_from_outside)
        audit_log.add_sink(self._watchers.add)
        self._grants = GrantBook(store, review=self._review, record=audit_log.record, clock=uptime)
        self.questions = Questions(
            lambda: store.current,
            self._grants,
            watched=lambda: self._watchers.answering,
            asking=lambda: self._watchers.asking,
            on_change=self._watchers.change,
            clock=uptime,
            limits=limits,
        )
        self._record = audit_log.record
        self._learning: Learning | None = None
        self._reviews: set[asyncio.Task[int]] = set()
        store.on_change = self.questions.review

    def connect(self, *, review: Review, in_traffic: InTraffic) -> None:
        """`review` ends what a change of grants no longer allows; `in_traffic` runs work in the traffic loop."""
        self._reviewing, self._in_traffic = review, in_traffic

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """The verbs that have one answer."""

        async def answer(question: Mapping[str, object]) -> Answer:
            return await self._in_traffic(self._answer(question))

        async def learn(question: Mapping[str, object]) -> Answer:
            return await self._in_traffic(self._learn(question))

        return {"answer": answer, "learn": learn}

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The verbs that go on."""
        return {"subscribe": self._watchers.serve}

    async def _review(self, revision: PolicyTransition) -> int:
        return await self._reviewing(revision)

    async def _answer(self, question: Mapping[str, object]) -> Answer:
        return answer_verb(self.questions, self._grants, question)

    async def _learn(self, question: Mapping[str, object]) -> Answer:
        if self._learning is None:
            self._learning = Learning(
                self._grants,
                policy=lambda: self._store.current,
                end_open=self._end_open,
                record=self._record,
                clock=uptime,
            )
        return self._learning.verb(question)

    def learns(self, exchange: Exchange, request: Request, decision: Decision, policy: Policy) -> bool:
        """Grant a denied request while a policy is learned; return whether the request must be decided again."""
        return self._learning is not None and self._learning.allow(exchange, request, decision, policy)

    @property
    def learning_seconds(self) -> int:
        """How long `policy learn` still allows what no rule denies; 0 if it does not."""
        return ceil(self._learning.seconds_left) if self._learning else 0

    def would_ask(self, host: str, port: int, decision: Decision) -> bool:
        """Return whether a denied request to this host could be allowed after all, by a person or while learning."""
        learns = self._learning is not None and self._learning.would_allow(host, port, decision)
        return learns or self.questions.would_ask(host, port, decision)

    def _end_open(self) -> None:
        """Decide everything that is open again, under the same policy."""
        now = self._store.current
        task = asyncio.get_running_loop().create_task(self._review(PolicyTransition(old=now, new=now)))
        self._reviews.add(task)
        task.add_done_callback(self._reviews.discard)

    async def _state_from_outside(self) -> Answer:
        return await self._in_traffic(self._state())

    async def _state(self) -> Answer:
        return state(self.questions, self._grants, self._store.current, now=uptime())


def answer_verb(questions: Questions, grants: GrantBook, question: Mapping[str, object]) -> Answer:
    """Answer an open question, or end a grant. What it takes: `id`, `scope`, `who`, `seconds`."""
    number, seconds = question.get("id"), question.get("seconds")
    who = printable(str(question.get("who") or "somebody"))[:LONGEST_NAME]
    if not isinstance(number, int) or isinstance(number, bool):
        return {"error": "no `id`"}
    if question.get("scope") == "end":
        return {"ok": True} if grants.end(number, f"{who} ended it") else {"error": "there is no such grant"}
    try:
        scope = Scope(str(question.get("scope")))
    except ValueError:
        return {"error": f"unknown scope; known: {', '.join((*Scope, 'end'))}"}
    lasts = float(seconds) if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else None
    if scope is Scope.TIME and lasts is None:
        return {"error": "no `seconds`"}
    why = questions.answer(number, scope, who=who, seconds=lasts)
    return {"error": why} if why else {"ok": True}


def state(questions: Questions, grants: GrantBook, policy: Policy, *, now: float) -> Answer:
    """Return the open questions and the grants, bounded and escaped: their texts come from the sandbox."""
    timeout = policy.settings.ask_timeout
    return {
        "ask": questions.about(policy),
        "questions": [_question(one, timeout=timeout, now=now) for one in questions],
        "grants": [_grant(one, now=now) for one in grants],
    }


def _question(question: Question, *, timeout: int, now: float) -> Answer:
    request = question.request
    path, headers = printable(request.path), printable(question.headers)
    return {
        "id": question.id,
        "scheme": request.scheme,
        "host": request.host,
        "port": request.port,
        "method": request.method,
        "path": path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}... ({len(path)} characters)",
        "query": len(request.query),
        "body": request.body_size,
        "requests": len(question.waiting),
        "reason": printable(question.reason),
        "services": list(question.services),
        "tool": question.tool,
        "client": question.client,
        "headers": headers if len(headers) <= LONGEST_HEADERS else f"{headers[:LONGEST_HEADERS]}...",
        "websocket": question.websocket,
        "http2": question.http2,
        "rule": printable(question.offer.text),
        "asked_by_rule": question.offer.asked_by_rule,
        "seconds_left": max(0, round(question.asked + timeout - now)),
    }


def _grant(grant: Grant, *, now: float) -> Answer:
    left = None if grant.until is None else max(0, round(grant.until - now))
    return {"id": grant.number, "rule": printable(grant.text), "who": grant.who, "seconds_left": left}
