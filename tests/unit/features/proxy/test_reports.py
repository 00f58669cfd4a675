import json
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Dropped, Grant, Question, Reply, State, domain_of, groups, read_report
from table_tests import each

QUESTION: dict[str, Any] = {
    "id": 3,
    "scheme": "https",
    "host": "new.example.net",
    "port": 443,
    "method": "POST",
    "path": "/x",
    "query": 5,
    "body": 2_000_000,
    "requests": 2,
    "reason": "no rule allows host new.example.net",
    "services": ["npm"],
    "tool": "npm",
    "rule": "POST https://new.example.net/x",
    "seconds_left": 50,
}
GRANT = {"id": 1, "rule": "GET https://a.test/**", "who": "ana", "seconds_left": None}


def state(*questions: dict[str, Any], grants: tuple[dict[str, Any], ...] = ()) -> State:
    found = read_report(json.dumps({"state": {"ask": "unlisted", "questions": questions, "grants": grants}}))
    assert isinstance(found, State)
    return found


def test_reads_headers_and_the_clients_address_and_limits_the_length_of_notes() -> None:
    (question,) = state(QUESTION | {"client": "172.18.0.3:40112", "headers": "host\x1b"}).questions
    assert (question.client, question.notes) == ("172.18.0.3:40112", ("headers: host\\x1b",))
    known = replace(question, sender="y" * 999, risks=("a", "b"), headers="")
    assert known.notes == ("careful: a", "careful: b", f"sent by (not verified): {'y' * 136}...")


def test_reads_a_state_with_the_details_of_questions_and_grants() -> None:
    assert state(QUESTION, grants=(GRANT, GRANT | {"seconds_left": 9})) == State(
        ask="unlisted",
        questions=(
            Question(
                id=3,
                method="POST",
                url="https://new.example.net/x",
                host="new.example.net",
                details="a query of 5 characters, a body of 2MB, a client that looks like npm, 2 requests like it",
                reason="no rule allows host new.example.net",
                services=("npm",),
                rule="POST https://new.example.net/x",
                requests=2,
                seconds_left=50,
            ),
        ),
        grants=(
            Grant(id=1, rule="GET https://a.test/**", who="ana", seconds_left=None),
            Grant(id=1, rule="GET https://a.test/**", who="ana", seconds_left=9),
        ),
    )


@each(
    ("more", "fits"),
    [({}, True), ({"rule": ""}, False), ({"asked_by_rule": True}, False), ({"asked_by_rule": False}, True)],
)
def test_a_question_fits_the_policy_if_it_suggests_a_rule_and_no_rule_asked(
    more: dict[str, Any], *, fits: bool
) -> None:
    assert state(QUESTION | more).questions[0].fits_policy is fits


@each(
    ("more", "url", "details"),
    [
        ({"port": 8443, "query": 0, "body": 0}, "https://new.example.net:8443/x", "2 requests like it"),
        (
            {"requests": 1, "query": 1, "body": None},
            "https://new.example.net/x",
            "a query of 1 character, a body of unknown size",
        ),
        ({"requests": 1, "query": 0, "body": None, "method": "GET", "http2": True}, "https://new.example.net/x", ""),
        (
            {"requests": 1, "query": 0, "body": None, "method": "GET", "http2": False},
            "https://new.example.net/x",
            "a body of unknown size",
        ),
        (
            {"requests": 1, "query": 0, "body": 0, "method": "GET", "websocket": True},
            "https://new.example.net/x",
            "a WebSocket, which sends data for as long as it is open",
        ),
        ({"path": "/\x1b[2J\u202e" + "y" * 500}, "https://new.example.net/\\x1b[2J\\u202e" + "y" * 386 + "...", None),
    ],
)
def test_the_url_and_the_details_of_a_question_are_bounded_and_escaped(
    more: dict[str, Any], url: str, details: str | None
) -> None:
    (question,) = state(QUESTION | {"tool": ""} | more).questions
    assert question.url == url
    assert details is None or question.details == details


@each(
    ("line", "report"),
    [
        ({"record": {"decision": "allow"}}, {"decision": "allow"}),
        ({"answer": {"ok": True}}, Reply(error="")),
        ({"answer": {"error": "closed\x1b"}}, Reply(error="closed\\x1b")),
        ({"dropped": 7}, Dropped(count=7)),
        ({"state": {"questions": [{}]}}, None),
        ({"state": {"questions": 7}}, None),
        ({"dropped": "x"}, None),
        ({"x": 1}, None),
        ([], None),
    ],
)
def test_each_line_is_parsed_as_a_report_or_ignored(line: object, report: object) -> None:
    assert read_report(json.dumps(line)) == report


@pytest.mark.parametrize("text", ["", "{", "docker: no such container", "[" * 100_000])
def test_text_that_is_not_json_is_not_a_report(text: str) -> None:
    assert read_report(text) is None


def test_groups_many_hosts_of_one_domain() -> None:
    hosts = [*(f"h{number}.example.net" for number in range(4)), "a.test", "x.co.uk", "y.co.uk"]
    found = state(*(QUESTION | {"id": number, "host": host} for number, host in enumerate(hosts)))
    assert [(name, [one.id for one in several]) for name, several in groups(found.questions)] == [
        ("*.example.net", [0, 1, 2, 3]),
        ("", [4]),
        ("", [5]),
        ("", [6]),
    ]


@each(
    ("host", "domain"),
    [
        ("a.b.example.com", "example.com"),
        ("me.github.io", "me.github.io"),
        ("x.me.github.io", "me.github.io"),
        ("com", "com"),
    ],
)
def test_domain_of_returns_the_registered_domain(host: str, domain: str) -> None:
    assert domain_of(host) == domain
