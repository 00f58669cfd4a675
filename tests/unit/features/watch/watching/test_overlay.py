import pytest
from msgspec.structs import replace

from agent_sandbox.features.proxy.reports import Dropped, Question, Reply, State
from agent_sandbox.features.watch.watching.connection import SETTLE_SECONDS
from agent_sandbox.features.watch.watching.overlay import BACK, GONE_SECONDS, LATER, LONGEST_RULE, TOO_SOON, Overlay
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
    assert seat.changes == 2


def test_notes_are_shown_as_far_as_the_keys_leave_room() -> None:
    noted = replace(ASKED, risks=("first " * 16, "second"), sender="curl", headers="host")
    shown = Seat().asks(noted)
    assert shown[6] == f"    careful: {'first ' * 11}".rstrip()
    assert shown[7].split() == ["first"] * 5
    assert shown[8:12] == ["    careful: second", "    sent by (not verified): curl", "    headers: host", ""]
    long = replace(noted, url=f"https://new.test/{'x' * 400}", reason="y" * 400, rule=f"GET https://{'z' * 220}")
    shown = Seat().asks(long)
    assert len(shown) == 24
    assert (shown[-1], [line for line in shown if "headers" in line]) == (LATER, [])


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


def test_ignores_keys_for_a_question_that_just_appeared_or_is_not_shown() -> None:
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


GONE = (
    "  gone: POST https://new.test/x: its client left, it was answered elsewhere, or",
    "    it timed out",
)


def test_a_key_for_a_replaced_question_answers_nothing() -> None:
    seat = Seat()
    seat.asks(ASKED)
    other = replace(ASKED, id=4, url="https://other.test/")
    seat.overlay.report(State(questions=(other,)))
    seat.overlay.press("a")  # before the screen was drawn
    assert seat.connection.given == []
    assert seat.shows()[2:6] == [*GONE, "", "  POST https://other.test/"]
    seat.overlay.press("a")
    assert (seat.connection.given, seat.shows()[-1]) == ([], f"  {TOO_SOON}")
    seat.now += SETTLE_SECONDS
    seat.overlay.press("a")
    seat.now += GONE_SECONDS
    assert (seat.connection.given, seat.shows()[2]) == ([(4, "once", None)], "  POST https://other.test/")


def test_notes_that_the_last_question_is_gone_before_passing_keys_on() -> None:
    seat = Seat()
    for key in ("", "escape"):
        seat.asks(ASKED)
        assert seat.asks() == ["app-1: no request waits", "", *GONE, "", BACK]
        seat.overlay.press("a")
        assert seat.shows() != []
        seat.overlay.press(key)
        seat.now += GONE_SECONDS * (not key)
        assert (seat.shows(), seat.connection.given) == ([], [])


@pytest.mark.parametrize("key", ["a", "d", "p", "escape"])
def test_does_not_report_answered_or_postponed_questions_as_gone(key: str) -> None:
    seat = Seat()
    seat.asks(ASKED)
    seat.overlay.press(key)
    assert seat.asks() == []


def test_question_numbers_start_again_after_a_restart_of_the_proxy() -> None:
    seat = Seat()
    seat.asks(ASKED)
    seat.overlay.lost("the proxy does not answer")
    seat.overlay.report(State(questions=(replace(ASKED, url="https://other.test/"),)))
    seat.overlay.press("a")
    seat.shows()
    seat.overlay.press("a")
    assert seat.connection.given == []


def test_a_group_stays_the_same_while_its_questions_change() -> None:
    seat = Seat()
    several = [replace(ASKED, id=number, host=f"h{number}.flood.test") for number in range(1, 7)]
    seat.asks(*several[:1])
    seat.asks(*several[:5])
    assert seat.asks(*several[1:])[2] == "  5 hosts under *.flood.test"
    seat.now -= SETTLE_SECONDS
    seat.overlay.press("d")
    assert [number for number, *_ in seat.connection.given] == [2, 3, 4, 5, 6]


def test_escape_postpones_the_question() -> None:
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


def test_cannot_grant_a_rule_that_does_not_fit_the_screen() -> None:
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


def test_shows_why_an_answer_failed() -> None:
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
