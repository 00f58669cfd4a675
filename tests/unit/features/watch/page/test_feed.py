import asyncio
import threading
from collections import Counter

from agent_sandbox.features.proxy.reports import Dropped, Reply, State
from agent_sandbox.features.watch.page.feed import AT_ONCE, KEPT, NOTES, Cursor, Decision, Feed, Page, Stack
from page_stand import NAME, open_state, question, record


def numbers(feed: Feed, cursor: Cursor) -> list[int]:
    return [one.number for one in feed.after(cursor).decisions]


def test_each_page_gets_every_decision_once() -> None:
    feed, cursor = Feed(), Cursor()
    feed.report(NAME, record())
    feed.report(NAME, record(event="health"))
    assert numbers(feed, cursor) == [1]
    assert not feed.has_more(cursor)
    feed.report(NAME, record())
    assert feed.has_more(cursor)
    assert numbers(feed, cursor) == [2]
    assert numbers(feed, Cursor()) == [1, 2]
    feed.report("app-2", record())
    assert feed.decision(3) == Decision(number=3, stack="app-2", record=record())


def test_bounds_a_flood_and_tells_a_slow_page_how_many_it_missed() -> None:
    feed, slow = Feed(), Cursor()
    feed.report(NAME, record())
    feed.after(slow)
    for number in range(KEPT * 3):
        feed.report(NAME, record(number))
    news = feed.after(slow)
    assert (len(news.decisions), news.missed) == (AT_ONCE, KEPT * 2)
    assert feed.has_more(slow)
    assert feed.after(slow).missed == 0
    late = Cursor()
    assert len(numbers(feed, late)) == AT_ONCE
    assert feed.decision(1) is None
    assert feed.decision(KEPT * 3 + 1) is not None


def test_a_noisy_stack_displaces_only_its_own_decisions() -> None:
    feed, slow = Feed(), Cursor()
    for name in ("app-2", NAME, "app-2", "app-3"):
        feed.report(name, record())
    feed.after(slow)
    feed.report("app-2", record())
    for number in range(KEPT * 3):
        feed.report(NAME, record(number))
    assert [feed.decision(number) is None for number in range(1, 7)] == [False, True, False, False, False, True]
    first = feed.after(slow)
    assert ([one.stack for one in first.decisions], first.missed) == (["app-2", *[NAME] * (AT_ONCE - 1)], KEPT * 2 + 4)
    every, late = [], Cursor()
    while feed.has_more(late):
        every += numbers(feed, late)
    assert (len(every), every) == (KEPT, sorted(every))


def test_equally_noisy_stacks_keep_equally_many_decisions() -> None:
    feed, cursor, kept = Feed(), Cursor(), Counter[str]()
    for number in range(KEPT):
        for name in ("app-1", "app-1", "app-2", "app-3", "app-4"):
            feed.report(name, record(number))
    while feed.has_more(cursor):
        kept.update(one.stack for one in feed.after(cursor).decisions)
    assert kept == dict.fromkeys(("app-1", "app-2", "app-3", "app-4"), KEPT // 4)


def test_an_unknown_event_number_starts_at_the_first_event() -> None:
    feed = Feed()
    feed.report(NAME, record())
    assert numbers(feed, Cursor(record=500)) == [1]


def test_all_stacks_are_sent_when_one_changes_and_its_questions_are_forgotten_with_the_connection() -> None:
    feed, cursor = Feed(), Cursor()
    feed.add(NAME)
    feed.add("app-2")
    other = Stack(name="app-2")
    assert feed.after(cursor).stacks == [Stack(name=NAME), other]
    feed.report(NAME, open_state(question()))
    assert feed.after(cursor).stacks == [Stack(name=NAME, state=open_state(question()), connected=True), other]
    assert (feed.state(NAME), feed.state("app-2"), feed.state("app-3")) == (open_state(question()), State(), State())
    assert feed.after(cursor).stacks is None
    feed.lost(NAME, "gone")
    news = feed.after(cursor)
    assert (news.stacks, news.notes) == ([Stack(name=NAME), other], ["gone"])


def test_bounds_notes_and_sends_each_once() -> None:
    feed, cursor = Feed(), Cursor()
    feed.report(NAME, Reply(error=""))
    feed.report(NAME, Reply(error="too late"))
    feed.report(NAME, Dropped(count=7))
    assert feed.after(cursor).notes == [
        "not done: too late",
        "7 decisions came too fast; agent-sandbox proxy logs has them",
    ]
    for _ in range(NOTES * 2):
        feed.report(NAME, Dropped(count=1))
    assert feed.after(cursor).notes == ["1 decision came too fast; agent-sandbox proxy logs has them"] * NOTES
    assert feed.after(cursor).notes == []


async def test_wakes_a_page_from_another_thread() -> None:
    feed, page = Feed(), Page()
    feed.join(page)
    threads = [threading.Thread(target=feed.report, args=(NAME, record())) for _ in range(20)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(10):
        await page.news(60)
    for thread in threads:
        thread.join()
    await page.news(0)
    feed.leave(page)
    feed.report(NAME, record())
    await page.news(0)


def test_ignores_a_page_whose_server_has_ended() -> None:
    feed = Feed()

    async def join() -> None:
        feed.join(Page())

    asyncio.run(join())
    feed.report(NAME, record())
