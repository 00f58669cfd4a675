"""What the page can ask of its server, over the real socket."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_sandbox.cli.steps.ui.app import LARGEST, MOST_PAGES
from agent_sandbox.cli.steps.ui.rules import Rules
from agent_sandbox.cli.steps.ui.today import Today
from agent_sandbox.runtime.proxy.reports import Grant, State
from agent_sandbox.runtime.traffic.record import Record, read_record
from page_stand import PageStand, open_state, question, record
from table_tests import each
from watching import Answers

GONE = "this request no longer waits: the client left, it was answered, or it timed out"
REQUEST = "GET https://new.test/x"
NO_RULE = "https://new.test/x: no rule can express exactly this request; allow it once, or deny it"


@pytest.fixture
def answers() -> Answers:
    """What is answered."""
    return Answers()


@pytest.fixture
def stand(answers: Answers) -> Iterator[PageStand]:
    """A server whose stack has open questions and a grant."""
    with PageStand(answers) as stand:
        grant = Grant(id=5, rule="GET https://old.test/**", who="ana", seconds_left=None)
        stand.feed.report(open_state(question(), question(99), question(4, rule=""), grants=(grant,)))
        yield stand


def test_questions_are_answered_and_grants_ended(stand: PageStand, answers: Answers) -> None:
    session = stand.begin()
    for word in ("once", "hour", "stop", "deny"):
        said = stand.send("POST /api/answer", session, body={"id": 3, "request": REQUEST, "word": word})
        assert said.status == 204
    assert stand.send("POST /api/end", session, body={"id": 5}).status == 204
    assert answers.given == [
        (3, "once", None),
        (3, "time", 3600),
        (3, "stop", None),
        (3, "deny", None),
        (5, "end", None),
    ]


@each(
    ("line", "body", "status", "why"),
    [
        ("answer", {"id": 3, "request": "GET https://other.test/", "word": "once"}, 409, GONE),
        ("answer", {"id": 5, "request": REQUEST, "word": "once"}, 409, GONE),
        ("answer", {"id": 4, "request": REQUEST, "word": "hour"}, 409, NO_RULE),
        ("answer", {"id": 4, "request": REQUEST, "word": "stop"}, 409, NO_RULE),
        ("answer", {"id": True, "request": REQUEST, "word": "once"}, 409, GONE),
        ("answer", {"id": "3", "request": REQUEST, "word": "once"}, 409, GONE),
        ("answer", {"id": 3, "request": REQUEST, "word": "everything"}, 400, "no such answer"),
        ("answer", {"id": 3, "request": REQUEST, "word": ["once"]}, 400, "no such answer"),
        ("answer", {}, 409, GONE),
        ("answer", [], 400, "not a JSON object"),
        ("answer", b"{", 400, "not JSON"),
        ("answer", b"[" * 9_000, 400, "not JSON"),
        ("answer", b"\xff", 400, "not JSON"),
        ("answer", b" " * (LARGEST + 1), 413, "the request is too large"),
        ("end", {"id": 6}, 409, "this grant has ended"),
        (
            "answer",
            {"id": 99, "request": REQUEST, "word": "deny"},
            409,
            "app-1: the connection to the proxy is closed",
        ),
    ],
)
def test_anything_else_answers_nothing(stand: PageStand, line: str, body: object, status: int, why: str) -> None:
    answers = stand.feed.state
    said = stand.send(f"POST /api/{line}", stand.begin(), body=body)
    assert (said.status, json.loads(said.text)) == (status, {"error": why})
    assert stand.feed.state == answers


def test_the_news_go_on_from_where_a_page_stopped(stand: PageStand) -> None:
    session = stand.begin()
    news = stand.news(session)
    first = next(news)
    assert (first["name"], first["connected"], first["cursor"]) == ("app-1", True, 0)
    assert [group["questions"][0]["id"] for group in first["state"]["groups"]] == [3, 99, 4]
    stand.feed.report(record())
    assert [one["number"] for one in next(news)["records"]] == [1]
    stand.feed.report(State())
    assert next(news)["state"]["groups"] == []
    news.close()
    stand.feed.report(record())
    assert [one["number"] for one in next(stand.news(session, after="1"))["records"]] == [2]
    assert [one["number"] for one in next(stand.news(session, after="-1"))["records"]] == [1, 2]


def test_so_many_pages_can_be_open(stand: PageStand) -> None:
    session = stand.begin()
    pages = [stand.news(session) for _ in range(MOST_PAGES)]
    assert all(next(page)["name"] == "app-1" for page in pages)
    said = stand.send("GET /api/news", session)
    assert (said.status, json.loads(said.text)) == (503, {"error": "8 pages are already open: close one"})
    stand.feed.end()
    assert [[*page] for page in pages] == [[]] * MOST_PAGES


def test_a_rule_is_shown_and_then_written(project: Path) -> None:
    written: list[tuple[str, str]] = []
    with PageStand(Answers(), Rules(project, lambda *rule: written.append(rule))) as stand:
        stand.feed.report(open_state(question(rule="GET https://new.example.com/**", services=("x\x1b[2J",))))
        stand.feed.report({**record(), "host": "new.example.com"})
        session, change = stand.begin(), {}
        for about in ({"id": 3, "request": REQUEST}, {"record": 1}):
            said = stand.send("POST /api/rule", session, body=about)
            change = json.loads(said.text)
            assert said.status == 200, said.text
            assert f"+  - {change['rule']}" in change["diff"]
        said = stand.send("POST /api/write", session, body={"change": change["id"]})
        assert (said.status, json.loads(said.text), written) == (
            200,
            {"printed": [""]},
            [("GET https://new.example.com/0", "project")],
        )
        body = {"id": 3, "request": REQUEST, "layer": "organisation"}
        unknown = stand.send("POST /api/rule", session, body=body)
        assert (unknown.status, json.loads(unknown.text)) == (400, {"error": "no such layer"})
        mine = json.loads(stand.send("POST /api/rule", session, body={**body, "layer": "user"}).text)
        assert (mine["layer"], mine["diff"][0].startswith("--- a/.devcontainer")) == ("user", False)
        too_old = stand.send("POST /api/rule", session, body={"record": 7})
        assert (too_old.status, json.loads(too_old.text)["error"][:35]) == (409, "the page no longer has this request")
        again = stand.send("POST /api/write", session, body={"change": change["id"]})
        assert again.status == 409


def test_hosts_and_policy_of_today_are_shown(project: Path) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomains: [new.test]\n")
    found = read_record(json.dumps({**record(), "rule": "policy.yaml:2"}))
    assert found

    def each(take: Callable[[Record], object]) -> None:
        take(replace(found, decision="allow"))

    with PageStand(Answers(), today=Today(project, each, now=lambda: datetime(2026, 1, 2, 10, tzinfo=UTC))) as stand:
        session = stand.begin()
        hosts = json.loads(stand.send("GET /api/hosts", session).text)
        policy = json.loads(stand.send("GET /api/policy", session).text)
        (project / ".devcontainer" / "policy.yaml").unlink()
        gone = stand.send("GET /api/policy", session)
    assert [(one["host"], one["requests"]) for one in hosts["hosts"]] == [("new.test", 1)]
    assert policy["lines"][1] == {
        "text": "domains: [new.test]",
        "uses": [{"what": "any method new.test", "allowed": 1, "denied": 0}],
    }
    assert gone.status == 409
