import asyncio
import threading

from agent_sandbox.cli.steps.ui.feed import AT_ONCE, KEPT, NOTES, Cursor, Feed, Page
from agent_sandbox.runtime.proxy.reports import Dropped, Reply, State
from page_stand import open_state, question, record


def numbers(feed: Feed, cursor: Cursor) -> list[int]:
    return [number for number, _ in feed.after(cursor).records]


def test_each_page_gets_every_decision_once() -> None:
    feed, cursor = Feed(), Cursor()
    feed.report(record())
    feed.report(record(event="health"))
    assert numbers(feed, cursor) == [1]
    assert not feed.has_more(cursor)
    feed.report(record())
    assert feed.has_more(cursor)
    assert numbers(feed, cursor) == [2]
    assert numbers(feed, Cursor()) == [1, 2]


def test_a_flood_is_bounded_and_a_slow_page_is_told_what_it_missed() -> None:
    feed, slow = Feed(), Cursor()
    feed.report(record())
    feed.after(slow)
    for number in range(KEPT * 3):
        feed.report(record(number))
    news = feed.after(slow)
    assert (len(news.records), news.missed) == (AT_ONCE, KEPT * 2)
    assert feed.has_more(slow)
    assert feed.after(slow).missed == 0
    late = Cursor()
    assert len(numbers(feed, late)) == AT_ONCE
    assert feed.record(1) is None
    assert feed.record(KEPT * 3 + 1) is not None


def test_a_number_that_was_never_given_starts_at_the_first() -> None:
    feed = Feed()
    feed.report(record())
    assert numbers(feed, Cursor(record=500)) == [1]


def test_the_state_is_sent_when_it_changes_and_forgotten_with_the_connection() -> None:
    feed, cursor = Feed(), Cursor()
    first = feed.after(cursor)
    assert (first.state, first.connected) == (State(), False)
    feed.report(open_state(question()))
    found = feed.after(cursor)
    assert (found.state, found.connected) == (open_state(question()), True)
    assert feed.after(cursor).state is None
    feed.lost("gone")
    news = feed.after(cursor)
    assert (news.state, news.connected, news.notes) == (State(), False, ["gone"])


def test_notes_are_bounded_and_said_once() -> None:
    feed, cursor = Feed(), Cursor()
    feed.report(Reply(error=""))
    feed.report(Reply(error="too late"))
    feed.report(Dropped(count=7))
    assert feed.after(cursor).notes == [
        "not done: too late",
        "7 decisions came too fast; agent-sandbox proxy logs has them",
    ]
    for _ in range(NOTES * 2):
        feed.report(Dropped(count=1))
    assert len(feed.after(cursor).notes) == NOTES
    assert feed.after(cursor).notes == []


async def test_a_page_is_woken_from_another_thread() -> None:
    feed, page = Feed(), Page()
    feed.join(page)
    threads = [threading.Thread(target=feed.report, args=(record(),)) for _ in range(20)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(10):
        await page.news(60)
    for thread in threads:
        thread.join()
    await page.news(0)
    feed.leave(page)
    feed.report(record())
    await page.news(0)


def test_a_page_whose_server_has_ended_is_left_alone() -> None:
    feed = Feed()

    async def join() -> None:
        feed.join(Page())

    asyncio.run(join())
    feed.report(record())
