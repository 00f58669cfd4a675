import json
from typing import Any, override

import pytest
from msgspec.structs import replace

from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.proxy.reports import LONGEST_RULE, Dropped, Question, Reply, State, read_report
from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.features.watch.watching import plain as module
from agent_sandbox.features.watch.watching.connection import Connection, rule_for
from agent_sandbox.features.watch.watching.plain import HELP, Plain, Stacks, read_answers
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside
from agent_sandbox.project.project import Project
from watching import RecordedPorts

RECORD = {"time": "x", "decision": "deny", "method": "GET", "host": "b.test", "port": 443, "path": "/", "reason": "no"}
RULE = "GET https://new.test/**"


class Answers(Connection):
    """A connection that records its answers."""

    def __init__(self) -> None:
        self.given: list[tuple[object, ...]] = []

    @override
    def answer(self, number: int, scope: str, *, seconds: int | None = None) -> None:
        """Keep it."""
        self.given.append((number, scope, seconds))

    @override
    def end(self) -> None:
        """Keep that it was ended."""
        self.given.append(("ended",))

    @override
    def allow_in(self, layer: RuleLayer, question: Question) -> None:
        """Keep it, or fail."""
        self.given.append((question.id, rule_for(question), layer))


def question(number: int, host: str = "new.test", **more: Any) -> Question:  # noqa: ANN401 - its fields
    usual: dict[str, Any] = {
        "method": "GET",
        "url": f"https://{host}/x",
        "details": "",
        "reason": f"no rule allows host {host}",
        "services": (),
        "rule": RULE,
        "requests": 1,
        "seconds_left": 60,
    }
    return Question(id=number, host=host, **usual | more)


class Seat:
    """Somebody at the terminal."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.screen, self.connection, self._capsys = Plain(), Answers(), capsys
        self.screen.report(State(ask="unlisted"))
        capsys.readouterr()

    def types(self, text: str) -> bool:
        """Type a line; return whether the program goes on."""
        return self.screen.command(text, self.connection)

    @property
    def sees(self) -> list[str]:
        """What was printed since the last look."""
        said = self._capsys.readouterr()
        return (said.out + said.err).splitlines()


@pytest.fixture
def seat(capsys: pytest.CaptureFixture[str]) -> Seat:
    return Seat(capsys)


def test_decisions_are_printed_without_the_stacks_own_checks(seat: Seat) -> None:
    seat.screen.report(RECORD)
    seat.screen.report(RECORD | {"event": "health"})
    seat.screen.report(Dropped(count=1))
    seat.screen.report(Reply(error=""))
    seat.screen.report(Reply(error="this question is closed"))
    assert seat.sees == [
        "x  deny   GET https://b.test/  no",
        "1 decision came too fast to be shown; `agent-sandbox proxy logs` has them",
        "done",
        "not done: this question is closed",
    ]


def test_a_question_is_printed_once_with_its_answers(seat: Seat) -> None:
    asked = question(3, details="a body of 2MB", services=("npm", "node"))
    seat.screen.report(State(questions=(asked,)))
    seat.screen.report(State(questions=(asked,)))
    assert seat.sees == [
        "? 3  GET https://new.test/x",
        "     with a body of 2MB",
        "     no rule allows host new.test",
        "     allowed by the service npm, or node",
        f"     for longer than once: {RULE}",
        "     3a once, 3h hour, 3s until it stops, 3p project, 3u you, 3d deny; 60 seconds left",
    ]


def test_prints_notes_and_the_sender_once_known(seat: Seat) -> None:
    asked = question(3, risks=("an address",), headers="host")
    known = replace(asked, sender="curl -s")
    for one in (asked, known, known, question(4, sender="npm ci")):
        seat.screen.report(State(questions=(one,)))
    assert [line for line in seat.sees if "careful" in line or "sent by" in line or "headers" in line] == [
        "     careful: an address",
        "     headers: host",
        "     3 was sent by (not verified): curl -s",
        "     sent by (not verified): npm ci",
    ]


class Named(Answers):
    """A connection to a stack with a name."""

    def __init__(self, project: Project, *, on_report: object, on_lost: object, on_ports: object) -> None:
        super().__init__()
        self.ports = RecordedPorts(self.given)
        self.project, self.on_report, self.on_lost, self.on_ports = project, on_report, on_lost, on_ports


def test_lines_begin_with_the_number_of_the_stack_if_there_are_several(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Connection", Named)
    stacks = Stacks()
    first = stacks.connect(without_directory("app-1"))
    assert stacks.command("g")
    second = stacks.connect(without_directory("app-2"))
    flood = tuple(question(number, f"h{number}.example.net") for number in range(1, 6))
    for report in (State(ask="unlisted", questions=(question(3),)), State(questions=flood), RECORD, Reply(error="")):
        second.on_report(report)  # type: ignore[attr-defined]
    for text in ("3a", "2.7e", " 2. 9 D ", "2.*.example.net d", "3.3a", "", "1.g"):
        assert stacks.command(text)
    assert not stacks.command("q")
    assert not stacks.command("2.quit")
    assert (first.given, second.given[:1], len(second.given)) == ([], [(7, "end", None)], 6)  # type: ignore[attr-defined]
    said = capsys.readouterr()
    which = "begin with the stack's number and a dot, as in `2.3a`"
    assert said.err.splitlines() == [
        "1. is app-1, 2. is app-2; `2.3a` answers its question 3",
        "2. connected; these requests wait for your answer: unlisted",
        "2. done",
        which,
        "2. question 9 is no longer open: it was answered, it timed out, or the client left",
        which,
    ]
    assert said.out.splitlines() == [
        "no grants",
        "2. ? 3  GET https://new.test/x",
        "2.      no rule allows host new.test",
        f"2.      for longer than once: {RULE}",
        "2.      2.3a once, 2.3h hour, 2.3s until it stops, 2.3p project, 2.3u you, 2.3d deny; 60 seconds left",
        "2. ? 5 hosts under *.example.net wait; `2.*.example.net d` denies them all",
        "2. x  deny   GET https://b.test/  no",
        "1. no grants",
    ]


def test_a_rule_that_asks_offers_no_line_for_the_project(seat: Seat) -> None:
    seat.screen.report(State(questions=(question(3, asked_by_rule=True),)))
    assert seat.sees[-1] == "     3a once, 3h hour, 3s until it stops, 3d deny; 60 seconds left"


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("3a", (3, "once", None)),
        (" 3 A ", (3, "once", None)),
        ("3h", (3, "time", 3600)),
        ("3s", (3, "stop", None)),
        ("3d", (3, "deny", None)),
        ("3p", (3, RULE, "project")),
        ("3u", (3, RULE, "user")),
        ("7e", (7, "end", None)),
    ],
)
def test_an_answer_names_its_question(seat: Seat, text: str, given: tuple[object, ...]) -> None:
    seat.screen.report(State(questions=(question(3),)))
    assert seat.types(text)
    assert seat.connection.given == [given]


@pytest.mark.parametrize(
    ("text", "said"), [("a", HELP[0]), ("3x", HELP[0]), ("4a", "question 4 is no longer open: "), ("", "")]
)
def test_other_input_answers_nothing(seat: Seat, text: str, said: str) -> None:
    seat.screen.report(State(questions=(question(3),)))
    assert seat.sees
    assert seat.types(text)
    assert (seat.connection.given, "".join(seat.sees[:1]).startswith(said)) == ([], True)


def test_a_question_of_a_proxy_that_restarted_cannot_be_answered(seat: Seat) -> None:
    seat.screen.report(State(questions=(question(3),)))
    seat.screen.lost("the proxy does not answer; trying again")
    assert seat.types("3a")
    assert seat.connection.given == []
    assert seat.sees[-1].startswith("question 3 is no longer open")


@pytest.mark.parametrize("rule", ["", f"GET https://new.test/{'x' * LONGEST_RULE}"])
def test_a_question_without_a_rule_to_show_is_only_about_this_request(seat: Seat, rule: str) -> None:
    seat.screen.report(State(questions=(question(3, rule=rule),)))
    assert seat.sees == [
        "? 3  GET https://new.test/x",
        "     no rule allows host new.test",
        "     no rule can express this: allow once, or deny",
        "     3a once, 3d deny; 60 seconds left",
    ]
    for word in "hspu":
        assert seat.types(f"3{word}")
    assert (
        seat.sees
        == [
            "error: https://new.test/x: no rule can express exactly this request",
            "  hint: allow it once, or deny it",
        ]
        * 4
    )
    assert seat.types("3a")
    assert seat.connection.given == [(3, "once", None)]


def test_a_flood_is_one_line_and_one_answer(seat: Seat) -> None:
    flood = tuple(question(number, f"h{number}.example.net") for number in range(1, 38))
    seat.screen.report(State(questions=(*flood[:5], question(90))))
    seat.screen.report(State(questions=flood[:9]))
    seat.screen.report(State(questions=flood))
    assert [line for line in seat.sees if "hosts" in line] == [
        "? 5 hosts under *.example.net wait; `*.example.net d` denies them all",
        "? 37 hosts under *.example.net wait; `*.example.net d` denies them all",
    ]
    assert seat.types("*.other.net d")
    assert seat.sees == ["no group of questions is called *.other.net"]
    assert seat.types("*.example.net d")
    assert seat.connection.given == [(number, "deny", None) for number in range(1, 38)]


def test_grants_are_listed(seat: Seat) -> None:
    assert seat.types("g")
    grants = [
        {"id": 1, "rule": RULE, "who": "ana", "seconds_left": 30},
        {"id": 2, "rule": RULE, "who": "ana", "seconds_left": None},
    ]
    found = read_report(json.dumps({"state": {"ask": "", "questions": [], "grants": grants}}))
    assert found
    seat.screen.report(found)
    assert seat.types("G")
    assert seat.sees == ["no grants", f"1  {RULE}  1 minute left, by ana", f"2  {RULE}  until it stops, by ana"]


def test_answers_are_read_until_one_says_to_end(seat: Seat) -> None:
    for lines in (["g", "q", "g"], ["g"]):
        read_answers(lines, seat.types, seat.connection.end)
    assert (seat.sees, seat.connection.given) == (["no grants", "no grants"], [("ended",)])


def test_prints_which_requests_wait_for_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Plain()
    screen.report(State(ask="unlisted"))
    screen.report(State(ask="unlisted"))
    screen.lost("lost")
    screen.report(State())
    assert capsys.readouterr().err.splitlines() == [
        "connected; these requests wait for your answer: unlisted",
        "lost",
        "connected; you are asked only where a rule has `ask: true`, because `settings` sets no `ask`",
    ]


def test_new_ports_are_printed_once_and_opened_and_closed_by_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Connection", Named)
    stacks = Stacks()
    stack = stacks.connect(without_directory("app-1"))
    node, python = PortInside(port=8080, command="node x.js"), PortInside(port=39215)
    for ports in ((node,), (python, node), (python, replace(node, here=8080))):
        stack.on_ports(Inside(ports=ports, more=2 * (len(ports) - 1)))  # type: ignore[attr-defined]
    stack.on_ports(Inside(note="closed 8080"))  # type: ignore[attr-defined]
    for text in ("open 8080", "Open 81:80", "close 8080", "open x"):
        assert stacks.command(text)
    assert stack.given == [("open", 8080, 8080), ("open", 81, 80), ("close", 8080)]  # type: ignore[attr-defined]
    assert capsys.readouterr().err.splitlines()[:7] == [
        "8080 listens in the sandbox: node x.js",
        "`open 8080` opens 8080 on this machine",
        "39215 listens in the sandbox: another user's program",
        "and 2 more: agent-sandbox ports",
        "`open 39215` opens 39215 on this machine",
        "closed 8080",
        "error: x: is not a TCP port",
    ]
