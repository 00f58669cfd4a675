import asyncio
import json

import pytest

from agent_sandbox.proxy.ask import watchers as subject
from agent_sandbox.proxy.ask.watchers import Watchers
from sleeps import turns


class Reader:
    """A watcher's connection that stores the lines it gets."""

    def __init__(self, watchers: Watchers, **question: object) -> None:
        self.lines: list[dict[str, object]] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.task = asyncio.create_task(watchers.serve(question, self.reply))

    async def reply(self, data: bytes) -> None:
        """Store the lines as soon as `reading` is set."""
        await self.reading.wait()
        self.lines += [json.loads(line) for line in data.splitlines()]

    async def end(self) -> None:
        """Close the connection."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> Watchers:
    """Watchers that get every line at once."""
    monkeypatch.setattr(subject, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(subject, "CAPACITY", 2)
    monkeypatch.setattr(subject, "MOST", 2)
    numbers = iter(range(100))

    async def state() -> dict[str, object]:
        return {"number": next(numbers)}

    return Watchers(state)


async def test_a_watcher_gets_the_state_and_then_records_and_changes(watchers: Watchers) -> None:
    watchers.add(b'{"lost": 1}\n')
    reader = Reader(watchers, answers=True)
    await turns()
    assert (reader.lines, watchers.answering, watchers.asking) == ([{"state": {"number": 0}}], True, False)
    watchers.add(b'{"x": 1}\n')
    watchers.add(b'{"x": 2}\n')
    await turns()
    watchers.change()
    await turns()
    assert reader.lines[1:] == [{"record": {"x": 1}}, {"record": {"x": 2}}, {"state": {"number": 1}}]
    await reader.end()
    assert watchers.answering is False


async def test_only_a_watcher_that_can_answer_can_enable_questions(watchers: Watchers) -> None:
    for answers in (False, True):
        reader = Reader(watchers, answers=answers, asks=True)
        await turns()
        assert watchers.asking is answers
        await reader.end()


async def test_a_slow_watcher_loses_records_but_no_state(watchers: Watchers) -> None:
    reader = Reader(watchers)
    await turns()
    assert watchers.answering is False
    reader.reading.clear()
    watchers.change()
    await turns()
    for number in range(5):
        watchers.add(b'{"x": %d}\n' % number)
    watchers.change()
    reader.reading.set()
    await turns()
    assert reader.lines[1:] == [
        {"state": {"number": 1}},
        {"state": {"number": 2}},
        {"record": {"x": 0}},
        {"record": {"x": 1}},
        {"dropped": 3},
    ]
    await reader.end()


async def test_the_state_waits_for_no_more_than_one_write_of_records(
    watchers: Watchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "CAPACITY", 10)
    monkeypatch.setattr(subject, "AT_ONCE", 4)
    reader = Reader(watchers)
    await turns()
    reader.reading.clear()
    for number in range(12):
        watchers.add(b'{"x": %d}\n' % number)
    await turns()  # the first four are being written
    watchers.change()
    reader.reading.set()
    await turns()
    kinds = ["".join(line) for line in reader.lines[1:]]
    assert kinds == ["record"] * 4 + ["state"] + ["record"] * 6 + ["dropped"]
    await reader.end()


async def test_limits_the_number_of_watchers(watchers: Watchers) -> None:
    readers = [Reader(watchers) for _ in range(3)]
    await turns()
    assert readers[2].lines == [{"error": "2 others watch already"}]
    assert readers[2].task.done()
    for reader in readers:
        await reader.end()
