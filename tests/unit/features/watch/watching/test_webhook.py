import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.features.watch.watching.webhook import HEADER, Message, Webhook, shown, signature
from agent_sandbox.features.watch.webhook_outcome import Failure, SenderLock, last_failure
from agent_sandbox.policy import decide, parse_request
from agent_sandbox.policyfile import load_policy
from post_receiver import OK, SECONDS, Receiver

REFUSES = b"HTTP/1.1 500 Oops\r\n\r\n"
GRANT = {
    "event": "grant",
    "decision": "allow",
    "method": "POST",
    "host": "new.test",
    "path": "/secret-path",
    "reason": "granted for 60 minutes by ana: POST https://new.test/secret-path",
}


class World:
    """A user with a webhook, one project, and what is sent about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "app"
        self.environ = {
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "K": "signing-key",
        }
        self.file = folder / "config" / "agent-sandbox" / "webhook.yaml"
        self.file.parent.mkdir(parents=True, mode=0o700)
        self.root.mkdir()
        self.made: list[Webhook] = []

    def says(self, receiver: Receiver, *include: str, key: str = "env:K") -> None:
        """Write the file."""
        self.file.write_text(f"version: 1\nurl: {receiver.url}\nkey: {key}\ninclude: [{', '.join(include)}]\n")

    def webhook(self, *, pause: float = 0.0) -> Webhook:
        """Return what sends."""
        self.made.append(Webhook(self.root, "app-1", environ=self.environ, pause=pause, clock=lambda: 1_700_000_000.0))
        return self.made[-1]

    def failure(self) -> Failure | None:
        """Return what `status` shows."""
        return last_failure(self.root, self.environ)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Yield it, and end all threads."""
    world = World(tmp_path)
    yield world
    for one in world.made:
        one.end()


def asks(*numbers: int) -> State:
    """Return a state with these questions."""
    return State(
        questions=tuple(
            Question(
                id=number,
                method="POST",
                url="https://new.test/secret-path",
                host="new.test",
                details="",
                reason="no rule allows host new.test",
                services=(),
                rule="POST https://new.test/secret-path",
                requests=1,
                seconds_left=60,
            )
            for number in numbers
        )
    )


def message(receiver: Receiver) -> dict[str, Any]:
    """Return the next message."""
    _, body = receiver.next()
    found: dict[str, Any] = json.loads(body)
    return found


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    waiting = threading.Event()
    for _ in range(int(SECONDS * 100)):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError


def test_a_question_is_sent_without_path(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver)
        world.webhook().report(asks(3))
        head, body = receiver.next()
    assert f"{HEADER}: {signature(b'signing-key', body, now=1_700_000_000)}\r\n" in head
    assert json.loads(body) == {
        "version": 1,
        "sandbox": "app-1",
        "time": 1_700_000_000,
        "text": "POST new.test waits for an answer in app-1",
        "questions": [
            {
                "id": 3,
                "host": "new.test",
                "method": "POST",
                "reason": "no rule allows host new.test",
                "seconds_left": 60,
            }
        ],
        "closed": [],
        "answers": [],
    }


NEAR = """
version: 1
domains:
  - {host: a.test, rules: [{method: POST, path: {prefix: /known/}, query: {exact: {q: "1"}}}]}
"""


@pytest.mark.parametrize("include", [[], ["path"]])
def test_a_reason_that_names_the_path_is_sent_without_it_unless_the_user_wants_it(
    tmp_path: Path, include: list[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(NEAR)
    target = "/secret-path?secret-query=1"
    request = parse_request(scheme="https", host="a.test", port=443, method="POST", target=target)
    reason = decide(load_policy(tmp_path / "policy.yaml"), request).reason
    assert "secret-path" in reason
    assert "secret-query" in reason
    (question,) = asks(3).questions
    question = replace(question, host="a.test", reason=f"layer organisation restricts: {reason}")
    message = Message(questions=[question], closed=(), answers=())
    (sent,) = shown(message, name="app-1", now=0, path="path" in include)["questions"]
    without = "layer organisation restricts: host a.test is allowed, this request is not"
    assert sent["reason"] == (question.reason if include else without)


def test_path_and_answers_are_sent_if_the_user_wants_them(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver, "path", "answers")
        webhook = world.webhook()
        webhook.report(asks(3))
        (question,) = message(receiver)["questions"]
        eventually(lambda: webhook._sent == {3})
        webhook.record(GRANT)
        answered = message(receiver)
        webhook.report(asks())
        closed = message(receiver)
    assert (question["url"], question["rule"]) == ("https://new.test/secret-path", "POST https://new.test/secret-path")
    answer = {name: GRANT[name] for name in ("host", "method", "decision", "reason")}
    assert (answered["questions"], answered["answers"]) == ([], [answer])
    assert answered["text"] == "POST new.test in app-1: granted for 60 minutes by ana"
    assert (closed["closed"], closed["text"]) == ([3], "1 closed in app-1")


def test_an_answer_is_sent_without_the_path_of_its_rule(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver, "answers")
        webhook = world.webhook()
        for ignored in ({**GRANT, "event": "request"}, {**GRANT, "method": ""}):
            webhook.record(ignored)
        webhook.record(GRANT)
        sent = message(receiver)
    assert [one["reason"] for one in sent["answers"]] == ["granted for 60 minutes by ana"]
    assert "secret-path" not in json.dumps(sent)


def test_sends_many_questions_in_one_message_and_none_twice(world: World) -> None:
    paused, slept = threading.Semaphore(0), list[float | None]()

    def pause(timeout: float | None = None) -> bool:
        slept.append(timeout)
        paused.acquire(timeout=SECONDS)
        return False

    with Receiver() as receiver:
        world.says(receiver)
        webhook = world.webhook(pause=5.0)
        webhook._over.wait = pause  # type: ignore[method-assign]
        webhook.report(asks(1))
        sent = [message(receiver)]
        eventually(lambda: slept == [5.0])
        for last in range(2, 70):  # during the pause
            webhook.report(asks(*range(1, last)))
        paused.release(2)
        sent += [message(receiver), message(receiver)]
        eventually(lambda: len(slept) == 3)
        webhook.end()
        paused.release()
    ids = [[one["id"] for one in message["questions"]] for message in sent]
    assert [*map(len, ids)] == [1, 64, 3]
    assert sorted(number for each in ids for number in each) == [*range(1, 69)]
    assert sent[1]["text"] == "POST new.test and 63 more wait for an answer in app-1"


def test_retries_failed_messages_and_reports_the_failure_meanwhile(world: World) -> None:
    with Receiver(REFUSES, OK) as receiver:
        world.says(receiver)
        webhook = world.webhook(pause=0.01)
        webhook.report(asks(1))
        assert message(receiver)["questions"] == message(receiver)["questions"]
        eventually(lambda: webhook._sent == {1})
        eventually(lambda: world.failure() is None)


def test_a_failure_names_the_receiver_without_its_path(world: World) -> None:
    with Receiver(REFUSES) as receiver:
        world.says(receiver)
        world.webhook(pause=1000.0).report(asks(1))
        eventually(lambda: world.failure() is not None)
    expected = f"http://localhost:{receiver.port}: it answers 500"
    assert world.failure() == Failure(why=expected, time="2023-11-14T22:13:20Z")


def test_a_receiver_that_hangs_delays_nothing(world: World) -> None:
    with Receiver(None) as receiver:
        world.says(receiver)
        webhook = world.webhook()
        webhook.report(asks(1))
        receiver.next()
        webhook.report(asks(1, 2))  # returns at once, while the first message has no answer
        webhook.record(GRANT)


def test_an_invalid_file_is_a_failure_until_it_is_fixed(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver, key="env:MISSING")
        webhook = world.webhook()
        webhook.report(asks(1))
        eventually(lambda: world.failure() is not None)
        assert "the variable MISSING is not set" in str(world.failure())
        world.says(receiver)
        webhook.report(asks(1))
        assert message(receiver)["questions"]


def test_only_one_of_two_watchers_sends(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver)
        other = SenderLock(world.root, world.environ)
        assert other.take()
        webhook = world.webhook()
        webhook.report(asks(1))
        eventually(lambda: not webhook._wake.is_set())
        assert receiver.count == 0
        other.release()
        webhook.report(asks(1))
        assert len(message(receiver)["questions"]) == 1


def test_sends_questions_of_a_restarted_proxy_with_repeated_numbers(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver)
        webhook = world.webhook()
        webhook.report(asks(1))
        message(receiver)
        eventually(lambda: webhook._sent == {1})
        webhook.report(State())
        webhook.report(asks(1))
        assert [one["id"] for one in message(receiver)["questions"]] == [1]


def test_starts_nothing_without_the_file(world: World) -> None:
    webhook = world.webhook()
    webhook.report(asks(1))
    webhook.record(GRANT)
    assert webhook._thread is None


def test_markup_of_chat_programs_is_escaped(world: World) -> None:
    with Receiver() as receiver:
        world.says(receiver, "answers")
        world.webhook().record({**GRANT, "method": "<!channel>", "reason": "allowed once by <a&b>"})
        assert message(receiver)["text"] == "&lt;!channel&gt; new.test in app-1: allowed once by &lt;a&amp;b&gt;"


def test_the_signature_covers_key_time_and_body() -> None:
    expected = hmac.new(b"key", b"1700000000.{}", hashlib.sha256).hexdigest()
    assert signature(b"key", b"{}", now=1_700_000_000) == f"t=1700000000,v1={expected}"
    made = {signature(key, body, now=now) for key in (b"a", b"b") for body in (b"1", b"2") for now in (1_700, 1_701)}
    assert len(made) == 8
