from dataclasses import replace

import pytest

from agent_sandbox.cli.steps.watching.connection import SETTLE_SECONDS
from agent_sandbox.cli.steps.watching.overlay import LATER, LONGEST_RULE, Overlay
from agent_sandbox.runtime.proxy.reports import Dropped, Question, Reply, State
from watching import Answers

ASKED = Question(
    id=3,
    method="POST",
    url="https://new.test/x",
    host="new.test",
    details="a body of 2MB",
    reason="no rule allows host new.test",
    services=("npm", "node"),
    rule="POST https://new.test/x",
    requests=1,
    seconds_left=60,
)


class Seat:
    """Somebody at the terminal, whose clock stands still."""

    def __init__(self, **environ: str) -> None:
        self.now, self.changes, self.connection = 100.0, 0, Answers()
        self.overlay = Overlay("app-1", changed=self.change, environ=environ, clock=lambda: self.now)
        self.overlay.connection = self.connection

    def change(self) -> None:
        """Count it."""
        self.changes += 1

    def asks(self, *questions: Question) -> list[str]:
        """Report these questions, and return what is shown after a look."""
        self.overlay.report(State(ask="unlisted", questions=questions))
        shown = self.shows()
        self.now += SETTLE_SECONDS
        return shown

    def shows(self, columns: int = 80) -> list[str]:
        """Return what is shown."""
        return self.overlay.lines(columns)


def test_a_question_is_shown_with_its_keys() -> None:
    seat = Seat()
    assert seat.shows() == []
    assert seat.asks(ASKED) == [
        "app-1: a request waits for you, 60 seconds left",
        "",
        "  POST https://new.test/x",
        "    with a body of 2MB",
        "    no rule allows host new.test",
        "    allowed by the service npm, or node",
        "",
        "    a  allow this request, once",
        "    h  allow for an hour: POST https://new.test/x",
        "    s  the same, until the sandbox stops",
        "    p  the same, for the project: adds the line to policy.yaml",
        "    u  the same, for you: adds it to your own policy, for all your projects",
        "    d  deny, and do not ask about this host for ten minutes",
        LATER,
    ]
    by_rule = seat.asks(replace(ASKED, asked_by_rule=True))
    assert [line[:5] for line in by_rule if line.startswith("    ")][-4:] == ["    a", "    h", "    s", "    d"]
    assert seat.asks() == []
    assert seat.changes == 3


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("a", (3, "once", None)),
        ("h", (3, "time", 3600)),
        ("s", (3, "stop", None)),
        ("d", (3, "deny", None)),
        ("p", (3, ASKED.rule, "project", False)),
        ("u", (3, ASKED.rule, "user", False)),
    ],
)
def test_a_key_answers(key: str, given: tuple[object, ...]) -> None:
    seat = Seat()
    seat.asks(ASKED)
    seat.overlay.press(key)
    seat.overlay.press("x")
    assert seat.connection.given == [given]


def test_nothing_is_answered_that_has_just_appeared_or_is_not_shown() -> None:
    seat = Seat()
    seat.overlay.press("a")
    seat.asks(ASKED)
    seat.asks(replace(ASKED, id=4))
    seat.now -= 0.1
    seat.overlay.press("a")
    seat.overlay.lost("the proxy does not answer")
    seat.now += 1
    seat.overlay.press("a")
    assert seat.connection.given == []
    seat.asks(ASKED)
    seat.overlay.connection = None
    seat.overlay.press("a")
    assert seat.connection.given == []


def test_escape_leaves_the_question_to_others() -> None:
    seat = Seat()
    assert seat.asks(ASKED, replace(ASKED, id=4))[0] == ("app-1: a request waits for you, 1 of 2, 60 seconds left")
    seat.overlay.press("escape")
    assert "60 seconds" in seat.shows()[0]
    seat.now += 3
    assert "57 seconds" in seat.shows()[0]
    seat.overlay.press("escape")
    assert (seat.shows(), seat.connection.given) == ([], [])
    assert seat.asks(replace(ASKED, id=5)) != []


def test_a_group_can_only_be_denied() -> None:
    seat = Seat()
    several = [replace(ASKED, id=number, host=f"h{number}.flood.test") for number in range(1, 5)]
    assert seat.asks(*several)[2:] == [
        "  4 hosts under *.flood.test",
        "    h1.flood.test, h2.flood.test, h3.flood.test, h4.flood.test",
        "",
        "    d  deny them all; they cannot be allowed at once",
        LATER,
    ]
    for key in "ahspd":
        seat.overlay.press(key)
    assert seat.connection.given == [(number, "deny", None) for number in range(1, 5)]


def test_a_rule_that_cannot_be_shown_whole_cannot_be_granted() -> None:
    for rule in ("", "x" * (LONGEST_RULE + 1)):
        seat = Seat()
        shown = seat.asks(replace(ASKED, rule=rule))
        assert not [line for line in shown if line.startswith(("    h", "    s", "    p"))]
        for key in "hspa":
            seat.overlay.press(key)
        assert seat.connection.given == [(3, "once", None)]


def test_the_longest_question_fits_on_a_small_terminal() -> None:
    seat = Seat()
    long = "x" * 400
    shown = seat.asks(
        replace(ASKED, url=f"https://{long}", reason=long, rule="r" * LONGEST_RULE, services=("npm",)),
        replace(ASKED, id=4),
    )
    assert len(shown) <= 24
    assert max(map(len, shown[1:])) < 80
    assert max(map(len, seat.shows(columns=40)[1:])) < 40
    assert max(map(len, seat.shows(columns=400)[1:])) < 100


def test_says_why_an_answer_failed() -> None:
    seat = Seat()
    seat.asks(ASKED, replace(ASKED, id=99))
    seat.overlay.report(Reply(error="this question is closed"))
    seat.overlay.report(Dropped(count=3))
    assert seat.shows()[-1] == "  this question is closed"
    seat.asks()
    seat.asks(replace(ASKED, id=99))
    seat.overlay.press("a")
    assert seat.shows()[-1] == "  app-1: the connection to the proxy is closed"


@pytest.mark.parametrize(
    ("environ", "notification"),
    [
        ({"TERM": "xterm-256color"}, b"\x1b]9;agent-sandbox: POST new.test waits for you\x1b\\"),
        ({"TERM": "foot"}, b"\x1b]777;notify;agent-sandbox;POST new.test waits for you\x1b\\"),
        ({"TERM": "xterm", "VTE_VERSION": "1"}, b"\x1b]777;notify;agent-sandbox;POST new.test waits for you\x1b\\"),
        ({"TERM": "linux"}, b""),
    ],
)
def test_rings_once_for_each_question(environ: dict[str, str], notification: bytes) -> None:
    seat = Seat(**environ)
    seat.asks(ASKED)
    assert [seat.overlay.signal() for _ in range(2)] == [b"\x07" + notification, b""]
    seat.asks(ASKED, replace(ASKED, id=4))
    assert seat.overlay.signal() == b"\x07" + notification
