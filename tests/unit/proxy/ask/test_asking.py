import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from agent_sandbox.policy import Policy, decide
from agent_sandbox.proxy.ask.asking import Asking
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.control.channel import Answer
from agent_sandbox.proxy.exchange.exchange import open_exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition
from asking_world import HEAD, TUNNEL, request

GET = request("GET https://new.test/x")


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_answer_allows_the_request_and_ending_the_grant_starts_a_review(
    policy: Callable[[str], Policy],
) -> None:
    first = policy("domains: [a.test]\nsettings: {ask: unlisted}")
    store = PolicyStore(Path("policy.yaml"), load=lambda _: first)
    asking = Asking(store, AuditLog([], clock=lambda: 0.0), Limits())
    lines: list[dict[str, Any]] = []

    async def reply(data: bytes) -> None:
        lines.extend(json.loads(line) for line in data.splitlines())

    watching = asyncio.ensure_future(asking.streams["subscribe"]({"answers": True}, reply))
    await turns()
    assert lines == [{"state": {"ask": "unlisted", "questions": [], "grants": []}}]
    reviewed: list[PolicyTransition] = []

    async def review(revision: PolicyTransition) -> int:
        reviewed.append(revision)
        return 0

    async def in_traffic(work: Coroutine[Any, Any, Answer]) -> Answer:
        return await work

    exchange = open_exchange(HEAD, TUNNEL, started=0)
    assert asking.questions.ask(exchange, GET, decide(first, GET), first) == ""
    assert await asking.verbs["answer"]({"id": 1, "scope": "stop"}) == {"ok": True}
    assert not exchange.waits
    assert decide(store.current, GET).allowed
    await turns()
    assert reviewed == []
    asking.connect(review=review, in_traffic=in_traffic)
    assert await asking.verbs["answer"]({"id": 1, "scope": "end"}) == {"ok": True}
    await turns()
    assert len(reviewed) == 1
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_learning_grants_requests_until_it_ends_and_then_starts_a_review(
    policy: Callable[[str], Policy],
) -> None:
    current = policy("domains: [a.test]")
    store = PolicyStore(Path("policy.yaml"), load=lambda _: current)
    asking = Asking(store, AuditLog([], clock=lambda: 0.0), Limits())
    reviewed: list[PolicyTransition] = []

    async def review(revision: PolicyTransition) -> int:
        reviewed.append(revision)
        return 0

    async def in_traffic(work: Coroutine[Any, Any, Answer]) -> Answer:
        return await work

    asking.connect(review=review, in_traffic=in_traffic)
    exchange, denied = open_exchange(HEAD, TUNNEL, started=0), decide(current, GET)
    assert (asking.learns(exchange, GET, denied, current), asking.learning_seconds) == (False, 0)
    assert not asking.would_ask("new.test", 443, denied)
    assert await asking.verbs["learn"]({"seconds": 60}) == {"ok": True}
    assert (asking.learns(exchange, GET, denied, current), asking.learning_seconds) == (True, 60)
    assert asking.would_ask("new.test", 443, denied)
    assert await asking.verbs["learn"]({"seconds": 0}) == {"ok": True}
    await turns()
    assert asking.learning_seconds == 0
    assert (exchange.grants, reviewed) == ((), [PolicyTransition(old=current, new=current)])
