import pytest

from agent_sandbox.policy import decide
from agent_sandbox.proxy.ask import questions as subject
from agent_sandbox.proxy.ask.grant_book import MOST, Scope
from agent_sandbox.proxy.limits import Limits
from asking_world import World, request
from policy_texts import PolicyOf

ASKS = "domains: [a.test]\ndeny: [bad.test]\nsettings: {ask: {timeout: 7}}"
GET = "GET https://new.test/x"


@pytest.fixture
def world(policy: PolicyOf) -> World:
    """A policy that asks about unlisted hosts, and a watcher."""
    return World(policy(ASKS), Limits(questions=4))


@pytest.mark.parametrize("line", ["GET https://a.test/x", "GET https://bad.test/", "GET https://10.0.0.1/"])
def test_asks_only_where_a_grant_would_decide(world: World, line: str) -> None:
    exchange, why = world.ask(line)
    assert (exchange.waiting, why, world.ids()) == (None, "", [])


def test_asks_no_question_unless_the_policy_sets_ask(policy: PolicyOf) -> None:
    exchange, why = World(policy("domains: [a.test]")).ask(GET)
    assert (exchange.waiting, why) == (None, "")


async def test_asks_about_a_write_that_a_rule_allows_without_naming_its_method(policy: PolicyOf) -> None:
    world = World(policy("domains: [a.test]\nsettings: {ask: writes}"))
    exchange, _ = world.ask("POST https://a.test/x")
    assert (exchange.waits, [one.reason for one in world.questions]) == (
        True,
        ["`settings.ask` requires a person to allow POST"],
    )
    assert not world.ask("POST https://new.test/x")[0].waits
    world.questions.answer(1, Scope.STOP, who="ana")
    assert not exchange.waits
    assert decide(world.store.current, request("POST https://a.test/x")).allowed
    world.watched = False
    assert world.ask("PUT https://a.test/x")[1] == subject.UNWATCHED


@pytest.mark.parametrize(
    ("settings", "about"),
    [("", "unlisted"), ("settings: {block_status: 418}", "unlisted"), ("settings: {ask: false}", "")],
)
def test_a_watcher_can_enable_questions_where_the_policy_does_not_set_ask(
    policy: PolicyOf, settings: str, about: str
) -> None:
    world = World(policy(f"domains: [a.test]\n{settings}"))
    world.asking = True
    exchange, why = world.ask(GET)
    assert (exchange.waits, why, world.questions.about(world.store.current)) == (bool(about), "", about)
    denied, _ = world.ask("GET https://10.0.0.1/")
    assert not denied.waits


def test_a_request_waits_until_the_timeout(world: World) -> None:
    exchange, why = world.ask(GET, services=lambda: ("npm",))
    assert (exchange.waits, why) == (True, "")
    (question,) = world.questions
    assert (question.id, question.services, question.asked, question.reason) == (
        1,
        ("npm",),
        100.0,
        "no rule allows host new.test",
    )
    (timer,) = world.timers
    assert timer.seconds == 7
    timer.call()
    assert exchange.waiting
    assert (exchange.waits, exchange.waiting.why, exchange.grants, world.ids()) == (False, subject.NO_ANSWER, (), [])


def test_limits_the_number_of_waiting_requests(world: World) -> None:
    for number in range(4):
        assert world.ask(f"GET https://new.test/{number % 2}")[1] == ""
    assert world.ask(GET)[1] == subject.CROWDED


def test_checks_denials_and_limits_before_it_computes_an_offer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ask(GET)
    world.questions.answer(1, Scope.DENY, who="ana")
    for number in range(4):
        world.ask(f"GET https://b.test/{number}")
    monkeypatch.delattr(subject, "offer_for")
    assert world.ask("GET https://new.test/y")[1] == subject.ALREADY_DENIED
    assert world.ask("GET https://c.test/")[1] == subject.CROWDED


def test_once_allows_the_oldest_of_identical_requests(world: World) -> None:
    (first, _), (second, _) = world.ask(GET), world.ask(GET)
    assert world.ids() == [1]
    assert world.questions.answer(1, Scope.ONCE, who="ana") == ""
    assert (first.waits, second.waits, world.ids()) == (False, True, [2])
    (grant,) = first.grants
    assert str(grant) == "GET, HEAD https://new.test"
    assert "this question is closed" in world.questions.answer(1, Scope.ONCE, who="ana")
    assert world.questions.answer(2, Scope.ONCE, who="ana") == ""
    assert (second.waits, world.ids(), world.timers[0].cancelled) == (False, [], True)
    assert [record.reason for record in world.records] == ["allowed once by ana"] * 2


def test_a_websocket_gets_a_separate_question_that_is_marked_as_websocket(world: World) -> None:
    world.ask(GET)
    world.ask(GET, websocket=True)
    assert [(question.websocket, len(question.waiting)) for question in world.questions] == [(False, 1), (True, 1)]


async def test_a_lasting_answer_ends_the_wait_of_all_requests_that_it_allows(world: World) -> None:
    (first, _), (second, _), (other, _) = (
        world.ask(GET),
        world.ask("GET https://new.test/y"),
        world.ask("GET https://b.test/"),
    )
    assert world.questions.answer(1, Scope.STOP, who="ana") == ""
    assert (first.waits, second.waits, other.waits, world.ids()) == (False, False, True, [3])
    assert (first.grants, world.ask(GET)[0].waiting) == ((), None)


def test_a_denial_is_remembered_for_the_host(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "REMEMBERED", 1)
    exchange, _ = world.ask(GET)
    assert world.questions.answer(1, Scope.DENY, who="ana") == ""
    assert exchange.waiting
    assert exchange.waiting.why == subject.DENIED
    assert world.ask("POST https://new.test/y")[1] == subject.ALREADY_DENIED
    world.now += subject.DENIED_SECONDS + 1
    assert world.ask(GET)[1] == ""
    world.ask("GET https://b.test/")
    world.questions.answer(3, Scope.DENY, who="ana")
    assert world.ask("GET https://b.test/")[1] == subject.ALREADY_DENIED


async def test_an_answer_that_is_not_possible_leaves_the_question_open(world: World) -> None:
    exchange, _ = world.ask("PUT https://new.test/x;y")
    assert world.questions.answer(1, Scope.STOP, who="ana").startswith("no rule can express exactly this request")
    for number in range(MOST):
        world.ask(f"GET https://n{number}.test/")
        assert world.questions.answer(number + 2, Scope.STOP, who="ana") == ""
    world.ask(GET)
    assert world.questions.answer(MOST + 2, Scope.STOP, who="ana").startswith("there are 100 grants already")
    assert exchange.waits


def test_withdraws_the_request_of_a_client_that_leaves(world: World) -> None:
    (first, _), (second, _) = world.ask(GET), world.ask(GET)
    assert first.waiting
    first.waiting.leave()
    assert (first.waits, first.waiting.why, second.waits, world.ids()) == (False, subject.LEFT, True, [1])
    assert second.waiting
    second.waiting.leave()
    second.waiting.leave()
    assert world.ids() == []


def test_a_reload_ends_the_questions_that_it_decides(world: World, policy: PolicyOf) -> None:
    (allowed, _), (denied, _), (open_, _) = (world.ask(f"GET https://{name}.test/") for name in "bcd")
    world.store.replace(policy("domains: [b.test]\ndeny: [c.test]\nsettings: {ask: unlisted}"))
    assert [exchange.waits for exchange in (allowed, denied, open_)] == [False, False, True]
    world.store.replace(policy("domains: [b.test]"))
    assert not open_.waits


def test_would_ask_about_an_unlisted_host_that_was_not_denied(world: World) -> None:
    denied = decide(world.store.current, request(GET))

    def would_ask(host: str) -> bool:
        return world.questions.would_ask(host, 443, denied)

    assert would_ask("new.test")
    assert [would_ask(host) for host in ("10.0.0.1", "nas", "bad.test")] == [False] * 3
    assert not world.questions.would_ask("a.test", 443, decide(world.store.current, request("GET https://a.test/")))
    world.watched = False
    assert not would_ask("new.test")
    world.watched = True
    world.ask(GET)
    world.questions.answer(1, Scope.DENY, who="ana")
    assert not would_ask("new.test")
