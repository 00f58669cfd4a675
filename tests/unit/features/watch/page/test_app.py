"""What the page can ask of its server, over the real socket."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Grant, State
from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.watch.page.app import LARGEST, MOST_PAGES
from agent_sandbox.features.watch.page.today import Today
from agent_sandbox.features.watch.watching.rules import Rules
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside
from page_stand import NAME, PageStand, open_state, question, record
from table_tests import each
from watching import Answers

GONE = "this request no longer waits: the client left, it was answered, or it timed out"
NO_STACK = "no such stack on this page"
REQUEST = "GET https://new.test/x"
NO_RULE = "https://new.test/x: no rule can express exactly this request; allow it once, or deny it"


def asked(word: str, name: str = NAME) -> dict[str, object]:
    """Return an answer to question 3."""
    return {"stack": name, "id": 3, "request": REQUEST, "word": word}


@pytest.fixture
def answers() -> Answers:
    """What is answered."""
    return Answers()


@pytest.fixture
def stand(answers: Answers) -> Iterator[PageStand]:
    """A server whose stack has open questions and a grant."""
    with PageStand(answers) as stand:
        grant = Grant(id=5, rule="GET https://old.test/**", who="ana", seconds_left=None)
        stand.report(open_state(question(), question(99), question(4, rule=""), grants=(grant,)))
        yield stand


def test_questions_are_answered_and_grants_ended(stand: PageStand, answers: Answers) -> None:
    session = stand.begin()
    for word in ("once", "hour", "stop", "deny"):
        said = stand.send("POST /api/answer", session, body=asked(word))
        assert said.status == 204
    assert stand.send("POST /api/end", session, body={"stack": NAME, "id": 5}).status == 204
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
        ("answer", {"stack": NAME, "id": 3, "request": "GET https://other.test/", "word": "once"}, 409, GONE),
        ("answer", {"stack": NAME, "id": 5, "request": REQUEST, "word": "once"}, 409, GONE),
        ("answer", {"stack": NAME, "id": 4, "request": REQUEST, "word": "hour"}, 409, NO_RULE),
        ("answer", {"stack": NAME, "id": 4, "request": REQUEST, "word": "stop"}, 409, NO_RULE),
        ("answer", {"stack": NAME, "id": True, "request": REQUEST, "word": "once"}, 409, GONE),
        ("answer", {"stack": NAME, "id": "3", "request": REQUEST, "word": "once"}, 409, GONE),
        ("answer", {"stack": NAME, "id": 3, "request": REQUEST, "word": "everything"}, 400, "no such answer"),
        ("answer", {"stack": NAME, "id": 3, "request": REQUEST, "word": ["once"]}, 400, "no such answer"),
        ("answer", {}, 409, GONE),
        ("answer", {"stack": "app-2", "id": 3, "request": REQUEST, "word": "once"}, 409, GONE),
        ("end", {"stack": "app-2", "id": 5}, 404, NO_STACK),
        (
            "rule",
            {"stack": "app-2", "record": 1},
            409,
            "the page no longer has this request: use agent-sandbox policy suggest",
        ),
        ("write", {"stack": ["app-1"], "change": "x"}, 404, NO_STACK),
        ("answer", [], 400, "not a JSON object"),
        ("answer", b"{", 400, "not JSON"),
        ("answer", b"[" * 9_000, 400, "not JSON"),
        ("answer", b"\xff", 400, "not JSON"),
        ("answer", b" " * (LARGEST + 1), 413, "the request is too large"),
        ("end", {"stack": NAME, "id": 6}, 409, "this grant has ended"),
        (
            "answer",
            {"stack": NAME, "id": 99, "request": REQUEST, "word": "deny"},
            409,
            "app-1: the connection to the proxy is closed",
        ),
    ],
)
def test_rejects_malformed_answers(stand: PageStand, line: str, body: object, status: int, why: str) -> None:
    answers = stand.feed.state(NAME)
    said = stand.send(f"POST /api/{line}", stand.begin(), body=body)
    assert (said.status, json.loads(said.text)) == (status, {"error": why})
    assert stand.feed.state(NAME) == answers


def test_applies_an_answer_or_a_rule_to_the_stack_that_it_names(
    stand: PageStand, answers: Answers, project: Path
) -> None:
    other, written = Answers(), list[tuple[str, str]]()
    stand.add("app-2", other, Rules(project, lambda *rule: written.append(rule)))
    stand.report(open_state(question(rule="GET https://new.example.com/**")), name="app-2")
    stand.report({**record(), "host": "new.example.com"}, name="app-2")
    session = stand.begin()
    assert stand.send("POST /api/answer", session, body=asked("once", "app-2")).status == 204
    assert (answers.given, other.given) == ([], [(3, "once", None)])
    assert stand.send("POST /api/rule", session, body={"stack": NAME, "record": 1}).status == 409
    assert stand.send("POST /api/rule", session, body={"stack": "app-2", "record": 1}).status == 200
    change = json.loads(stand.send("POST /api/rule", session, body=asked("", "app-2")).text)["id"]
    assert stand.send("POST /api/write", session, body={"stack": NAME, "change": change}).status == 409
    assert stand.send("POST /api/write", session, body={"stack": "app-2", "change": change}).status == 200
    assert written == [("GET https://new.example.com/**", "project")]


def test_a_page_resumes_after_the_last_event_it_received(stand: PageStand) -> None:
    session = stand.begin()
    news = stand.news(session)
    first = next(news)
    (stack,) = first["stacks"]
    assert (stack["name"], stack["connected"], first["cursor"]) == (NAME, True, 0)
    assert [group["questions"][0]["id"] for group in stack["groups"]] == [3, 99, 4]
    stand.report(record())
    assert [one["number"] for one in next(news)["records"]] == [1]
    stand.report(State())
    assert next(news)["stacks"][0]["groups"] == []
    news.close()
    stand.report(record())
    assert [one["number"] for one in next(stand.news(session, after="1"))["records"]] == [2]
    assert [one["number"] for one in next(stand.news(session, after="-1"))["records"]] == [1, 2]


def test_limits_the_number_of_open_pages(stand: PageStand) -> None:
    session = stand.begin()
    pages = [stand.news(session) for _ in range(MOST_PAGES)]
    assert all(next(page)["cursor"] == 0 for page in pages)
    said = stand.send("GET /api/news", session)
    assert (said.status, json.loads(said.text)) == (503, {"error": "8 pages are already open: close one"})
    stand.feed.end()
    assert [[*page] for page in pages] == [[]] * MOST_PAGES


def test_a_rule_is_shown_and_then_written(project: Path) -> None:
    written: list[tuple[str, str]] = []
    with PageStand(Answers(), Rules(project, lambda *rule: written.append(rule))) as stand:
        stand.report(open_state(question(rule="GET https://new.example.com/**", services=("x\x1b[2J",))))
        stand.report({**record(), "host": "new.example.com"})
        session, change = stand.begin(), {}
        for about in ({"stack": NAME, "id": 3, "request": REQUEST}, {"stack": NAME, "record": 1}):
            said = stand.send("POST /api/rule", session, body=about)
            change = json.loads(said.text)
            assert said.status == 200, said.text
            assert f"+  - {change['rule']}" in change["diff"]
        said = stand.send("POST /api/write", session, body={"stack": NAME, "change": change["id"]})
        assert (said.status, json.loads(said.text), written) == (
            200,
            {"printed": [""]},
            [("GET https://new.example.com/0", "project")],
        )
        body = {"stack": NAME, "id": 3, "request": REQUEST, "layer": "organisation"}
        unknown = stand.send("POST /api/rule", session, body=body)
        assert (unknown.status, json.loads(unknown.text)) == (400, {"error": "no such layer"})
        mine = json.loads(stand.send("POST /api/rule", session, body={**body, "layer": "user"}).text)
        assert (mine["layer"], mine["diff"][0].startswith("--- a/.devcontainer")) == ("user", False)
        too_old = stand.send("POST /api/rule", session, body={"stack": NAME, "record": 7})
        assert (too_old.status, json.loads(too_old.text)["error"][:35]) == (409, "the page no longer has this request")
        again = stand.send("POST /api/write", session, body={"stack": NAME, "change": change["id"]})
        assert again.status == 409


def test_hosts_and_policy_of_today_are_shown(project: Path) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("version: 1\ndomains: [new.test]\n")
    found = read_record(json.dumps({**record(), "rule": "policy.yaml:2"}))
    assert found

    def each(take: Callable[[Record], object]) -> None:
        take(replace(found, decision="allow"))

    with PageStand(Answers(), today=Today(project, each, now=lambda: datetime(2026, 1, 2, 10, tzinfo=UTC))) as stand:
        session = stand.begin()
        hosts = json.loads(stand.send(f"GET /api/hosts?stack={NAME}", session).text)
        policy = json.loads(stand.send(f"GET /api/policy?stack={NAME}", session).text)
        (project / ".devcontainer" / "policy.yaml").unlink()
        gone = stand.send(f"GET /api/policy?stack={NAME}", session)
        unknown = stand.send("GET /api/policy", session)
    assert [(one["host"], one["requests"]) for one in hosts["hosts"]] == [("new.test", 1)]
    assert policy["lines"][1] == {
        "text": "domains: [new.test]",
        "uses": [{"what": "any method new.test", "allowed": 1, "denied": 0}],
    }
    assert (gone.status, unknown.status, json.loads(unknown.text)) == (409, 404, {"error": NO_STACK})


def test_opens_and_closes_only_ports_that_the_page_shows_as_they_are(stand: PageStand) -> None:
    session = stand.begin()
    ports = (PortInside(port=39215, command="python3\x1b"), PortInside(port=8080, here=8081))
    stand.feed.report_ports(NAME, Inside(ports=ports, more=2, note="closed 1"))
    news = next(stand.news(session))
    (shown,) = news["stacks"]
    assert (shown["more_ports"], shown["connected"], news["notes"][-1]) == (2, True, "closed 1")
    assert shown["ports"] == [
        {"port": 39215, "command": "python3\\x1b", "here": 0},
        {"port": 8080, "command": "", "here": 8081},
    ]
    for port, here, status in ((39215, 0, 204), (8080, 8081, 204), (8080, 0, 409), (39215, 1, 409), ("8080", 0, 409)):
        body = {"stack": NAME, "port": port, "here": here}
        assert stand.send("POST /api/port", session, body=body).status == status
    assert stand.given == [("open", 39215, 39215), ("close", 8081)]
    stand.feed.lost(NAME, "x")
    assert stand.feed.inside(NAME).ports == ports
