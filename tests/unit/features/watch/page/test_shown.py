from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Grant, State
from agent_sandbox.features.watch.page.feed import Decision, News, Record, Stack
from agent_sandbox.features.watch.page.shown import (
    LONGEST,
    MOST_QUESTIONS,
    Shown,
    decision_shown,
    news_shown,
    stack_shown,
)
from page_stand import NAME, open_state, question, record


def shown_state(state: State) -> Shown:
    return stack_shown(Stack(name=NAME, state=state, connected=True))


def shown_record(record: Record, number: int = 1) -> Shown:
    return decision_shown(Decision(number=number, stack=NAME, record=record))


def test_a_decision_has_the_fields_that_the_page_needs() -> None:
    shown = shown_record(record(bytes_out=3, duration_ms=1.5, rule=None), 7)
    assert {
        name: shown[name] for name in ("number", "stack", "request", "decision", "status", "bytes_out", "rule")
    } == {
        "number": 7,
        "stack": NAME,
        "request": "GET https://new.test/0",
        "decision": "deny",
        "status": 403,
        "bytes_out": 3,
        "rule": "",
    }


def test_bounds_and_escapes_text_from_the_sandbox() -> None:
    hostile = "\x1b]0;owned\x07\u202e<img src=x onerror=alert(1)>\u200b" + "a" * 1_000_000
    odd: dict[str, object] = {"time": hostile, "status": "403", "bytes_in": True, "bytes_out": -1, "duration_ms": 1e300}
    texts = dict.fromkeys(("path", "host", "reason", "method", "tool"), hostile)
    shown = shown_record({**record(), **texts, **odd})
    found = [value for value in shown.values() if isinstance(value, str)]
    assert all(len(text) <= LONGEST + 3 and text.isascii() and text.isprintable() for text in found)
    assert shown["reason"].startswith("\\x1b]0;owned\\x07\\u202e<img")
    assert [shown[name] for name in ("status", "bytes_in", "bytes_out", "duration_ms")] == [None] * 4


def test_shows_values_of_other_types_as_text() -> None:
    shown = shown_record({"decision": ["deny"], "host": {"a": 1}, "port": None, "reason": 3})
    assert (shown["decision"], shown["host"], shown["reason"]) == ("['deny']", "{'a': 1}", "3")


def test_groups_questions_about_many_hosts_of_one_domain() -> None:
    many = [question(number, host=f"h{number}.example.test") for number in range(200)]
    shown = shown_state(
        open_state(*many, grants=(Grant(id=1, rule="GET https://a.test/**", who="ana", seconds_left=9),))
    )
    (group,) = shown["groups"]
    assert (group["name"], len(group["questions"])) == ("*.example.test", MOST_QUESTIONS)
    assert shown["grants"] == [{"id": 1, "rule": "GET https://a.test/**", "who": "ana", "seconds_left": 9}]


def test_a_question_has_the_fields_that_an_answer_repeats() -> None:
    (group,) = shown_state(open_state(question()))["groups"]
    assert group["questions"][0]["request"] == "GET https://new.test/x"
    assert group["questions"][0]["fits_policy"]
    assert group["questions"][0]["notes"] == []
    (group,) = shown_state(open_state(question(sender="curl\x1b", headers="host")))["groups"]
    assert group["questions"][0]["notes"] == ["sent by (not verified): curl\\x1b", "headers: host"]
    (group,) = shown_state(open_state(question(asked_by_rule=True)))["groups"]
    assert not group["questions"][0]["fits_policy"]


def test_omits_unchanged_stacks() -> None:
    news = News(decisions=[], missed=2, stacks=None, notes=["\x1b[2J"])
    assert news_shown(news) == {"records": [], "missed": 2, "notes": ["\\x1b[2J"]}
    lost = {"name": NAME, "connected": False, "ask": "", "groups": [], "grants": [], "ports": [], "more_ports": 0}
    assert news_shown(replace(news, stacks=[Stack(name=NAME)]))["stacks"] == [lost]
