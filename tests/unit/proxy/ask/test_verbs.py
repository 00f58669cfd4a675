from collections.abc import Callable

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.proxy.ask.verbs import answer_verb, state
from asking_world import World


@pytest.fixture
def world(policy: Callable[[str], Policy]) -> World:
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
