import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.policy import decide
from agent_sandbox.proxy.ask.asking import Asking, answer_verb, state
from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.control.channel import Answer
from agent_sandbox.proxy.exchange.exchange import open_exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition
from asking_world import HEAD, TUNNEL, World, request
from policy_texts import PolicyOf
from sleeps import turns

GET = request("GET https://new.test/x")


async def test_an_answer_allows_the_request_and_ending_the_grant_starts_a_review(policy: PolicyOf) -> None:
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


async def test_learning_grants_requests_until_it_ends_and_then_starts_a_review(policy: PolicyOf) -> None:
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


@pytest.fixture
def world(policy: PolicyOf) -> World:
    """A policy that asks about unlisted hosts."""
    return World(policy("domains: [a.test]\nsettings: {ask: unlisted}"))


def shown(world: World) -> dict[str, object]:
    return state(world.questions, world.grants, world.store.current, now=world.now)


async def test_the_state_lists_the_open_questions_and_the_grants(world: World) -> None:
    world.ask("POST https://new.test/x?y=1", services=lambda: ("npm",))
    world.ask("GET https://b.test/")
    world.ask("GET https://c.test/" + "x" * 400)
    answer_verb(world.questions, world.grants, {"id": 2, "scope": "time", "seconds": 90, "who": "ana\x1b"})
    world.now += 10
    found = shown(world)
    assert found["ask"] == "unlisted"
    assert isinstance(found["questions"], list)
    assert [one["path"] for one in found["questions"]] == ["/x", f"/{'x' * 299}... (401 characters)"]
    assert found["questions"][0] == {
        "id": 1,
        "scheme": "https",
        "host": "new.test",
        "port": 443,
        "method": "POST",
        "path": "/x",
        "query": 3,
        "body": None,
        "requests": 1,
        "reason": "no rule allows host new.test",
        "services": ["npm"],
        "tool": "",
        "client": "10.0.0.3:40112",
        "headers": "",
        "websocket": False,
        "http2": False,
        "rule": "POST https://new.test/x",
        "asked_by_rule": False,
        "seconds_left": 50,
    }
    assert found["grants"] == [{"id": 1, "rule": "GET https://b.test/**", "who": "ana\\x1b", "seconds_left": 80}]
    assert answer_verb(world.questions, world.grants, {"id": 1, "scope": "end", "who": "bo"}) == {"ok": True}
    assert shown(world)["grants"] == []
    answer_verb(world.questions, world.grants, {"id": 1, "scope": "stop"})
    assert shown(world)["grants"] == [
        {"id": 2, "rule": "POST https://new.test/x", "who": "somebody", "seconds_left": None}
    ]


async def test_names_of_headers_are_bounded_and_escaped(world: World) -> None:
    world.ask("GET https://new.test/x")
    (question,) = world.questions
    for headers, said in (("host, \x1b", "host, \\x1b"), ("x" * 999, f"{'x' * 300}...")):
        question.headers = headers
        found = shown(world)["questions"]
        assert isinstance(found, list)
        assert found[0]["headers"] == said


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({}, "no `id`"),
        ({"id": True}, "no `id`"),
        ({"id": 1, "scope": "forever"}, "unknown scope; known: once, time, stop, deny, end"),
        ({"id": 1, "scope": "time", "seconds": -1}, "no `seconds`"),
        ({"id": 1, "scope": "time", "seconds": True}, "no `seconds`"),
        ({"id": 7, "scope": "end"}, "there is no such grant"),
        ({"id": 7, "scope": "once"}, "this question is closed: the client left, it was answered, or it timed out"),
    ],
)
def test_an_invalid_answer_is_an_error(world: World, question: dict[str, object], error: str) -> None:
    assert answer_verb(world.questions, world.grants, question) == {"error": error}
