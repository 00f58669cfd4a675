import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from agent_sandbox.features.traffic import span_sender as subject
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.traffic.span_sender import SpanSender
from log_lines import denied
from post_receiver import OK, Receiver

REFUSES = b"HTTP/1.1 503 Busy\r\n\r\n"


class World:
    """Senders and the messages that they report."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.made: list[SpanSender] = []

    def sender(self, url: str, *, seconds: float = 20.0, token: str = "", pause: float = 0.001) -> SpanSender:
        """Start a sender."""
        headers = {"X-Token": token} if token else {}
        made = SpanSender(urlsplit(url), "app-1", headers, on_change=self.said.append, pause=pause, seconds=seconds)
        self.made.append(made)
        return made


@pytest.fixture
def world() -> Iterator[World]:
    """Yield a world, then end all threads."""
    world = World()
    yield world
    for one in world.made:
        one.end()


def record(number: int) -> Record:
    found = read_record(denied(f"GET https://a{number}.test/"))
    assert found
    return found


def spans(message: tuple[str, bytes]) -> list[str]:
    """Return the IDs of the spans in a message."""
    (group,) = json.loads(message[1])["resourceSpans"]
    return [span["traceId"] for span in group["scopeSpans"][0]["spans"]]


@pytest.mark.parametrize("path", ["", "/", "/v1/traces", "/v1/traces/"])
def test_spans_are_sent_with_the_users_headers(world: World, path: str) -> None:
    with Receiver() as receiver:
        sender = world.sender(f"http://127.0.0.1:{receiver.port}{path}", token="a b")
        sender.add(record(1))
        head, body = receiver.next()
        sender.end()
    assert head.startswith("POST /v1/traces HTTP/1.1\r\n")
    assert "\r\nX-Token: a b\r\n" in head
    assert spans((head, body)) == [record(1).id]
    assert (sender.sent, sender.dropped, world.said) == (1, 0, [])


def test_reports_a_failure_once_and_sends_the_spans_again(world: World) -> None:
    with Receiver(REFUSES, REFUSES, OK) as receiver:
        sender = world.sender(f"http://127.0.0.1:{receiver.port}/secret-path")
        sender.add(record(1))
        assert [spans(receiver.next()) for _ in range(3)] == [[record(1).id]] * 3
        sender.add(record(2))
        assert spans(receiver.next()) == [record(2).id]
        sender.end()
    where = f"http://127.0.0.1:{receiver.port}"
    assert world.said == [
        f"spans cannot be sent: {where}: it answers 503; trying again",
        "spans are sent again",
    ]
    assert (sender.sent, sender.dropped) == (2, 0)


@pytest.mark.parametrize("status", ["400 Bad", "413 Large", "422 No"])
def test_a_span_that_the_receiver_refuses_is_dropped_and_the_others_are_sent(world: World, status: str) -> None:
    refusal = f"HTTP/1.1 {status}\r\n\r\n".encode()
    with Receiver(refusal, refusal, refusal, OK) as receiver:
        sender = world.sender(f"http://127.0.0.1:{receiver.port}", pause=60)
        for number in range(3):
            sender.add(record(number))
        sender.end()
        got = [spans(receiver.next()) for _ in range(4)]
    ids = [record(number).id for number in range(3)]
    assert got == [ids, *([one] for one in ids)]
    assert (sender.sent, sender.dropped) == (1, 2)
    why = f"a span was dropped, because http://127.0.0.1:{receiver.port} refuses it: it answers {status[:3]}"
    assert world.said == [why]


def test_limits_waiting_spans_and_counts_dropped_spans(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST", 3)
    monkeypatch.setattr(subject, "AT_ONCE", 2)
    with Receiver(None) as receiver:  # it hangs
        sender = world.sender(f"http://127.0.0.1:{receiver.port}", seconds=0.2)
        for number in range(5):
            sender.add(record(number))
        sender.missed(10)
        assert len(spans(receiver.next())) <= 2
        assert sender.dropped == 12
        sender.end()
    assert (sender.sent, sender.dropped) == (0, 15)


def test_sends_waiting_spans_at_the_end(world: World) -> None:
    with Receiver() as receiver:
        sender = world.sender(f"http://127.0.0.1:{receiver.port}")
        sender.add(record(1))
        sender.end()
        assert spans(receiver.next()) == [record(1).id]
    assert sender.sent == 1


def test_does_not_send_records_of_health_checks(world: World) -> None:
    with Receiver() as receiver:
        sender = world.sender(f"http://127.0.0.1:{receiver.port}")
        found = read_record(denied("GET https://a.test/", event="health"))
        assert found
        sender.add(found)
        sender.end()
        assert receiver.count == 0
