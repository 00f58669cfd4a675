import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.widgets import DataTable, OptionList, Static

from agent_sandbox.features.proxy.reports import Dropped, Grant, Question, Reply, Report, State
from agent_sandbox.features.stack.stack_list import without_directory
from agent_sandbox.features.watch.watching import screen as module
from agent_sandbox.features.watch.watching.connection import SETTLE_SECONDS
from agent_sandbox.features.watch.watching.policy_line import PolicyLine
from agent_sandbox.features.watch.watching.screen import AT_ONCE, MISSED_SECONDS, WatchScreen
from agent_sandbox.features.watch.watching.screen_parts import Details
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside
from watching import Answers

RECORD = {
    "time": "x",
    "decision": "deny",
    "method": "GET",
    "host": "b.test",
    "port": 443,
    "path": "/[red]x",
    "reason": "no [b]rule[/b]",
    "rule": None,
    "status": 403,
}
ASKED = Question(
    id=3,
    method="GET",
    url="https://new.test/[red]x[/]",
    host="new.test",
    details="a body of 2MB",
    reason="no rule allows host new.test",
    services=("npm",),
    rule="GET https://new.test/**",
    requests=1,
    seconds_left=60,
)


class Seat:
    """A screen with somebody at it, whose clock stands still."""

    def __init__(self) -> None:
        self.now, self.connection = 0.0, Answers()
        self.screen = WatchScreen(clock=lambda: self.now)
        self.screen.add("app-1", self.connection)
        # The screen forgets a message after some seconds, and a test may be slow.
        self.said = list[str]()
        self.screen.notify = self.hear  # type: ignore[assignment]

    def hear(self, text: str, **_: object) -> None:
        """Keep a message."""
        self.said.append(text)

    def shows(self, selector: str) -> str:
        """Return the text of a part of the screen."""
        return str(self.screen.query_one(selector, Static).render())

    def decided(self, *records: Report) -> None:
        """Report decisions, and wait for the next interval."""
        for record in records:
            self.screen.report("app-1", record)
        self.screen.show_new()

    @property
    def questions(self) -> list[str]:
        """The lines of the open questions."""
        options = self.screen.query_one("#questions", OptionList).options
        return [str(option.prompt) for option in options]

    @property
    def rows(self) -> list[list[str]]:
        """The requests."""
        table = self.screen.query_one("#requests", DataTable)
        return [[str(cell) for cell in table.get_row(row)] for row in table.rows]


async def test_a_question_is_on_top_and_a_key_answers_it() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", State(ask="unlisted", questions=(ASKED,)))
        await pilot.pause()
        assert seat.questions == ["? GET https://new.test/[red]x[/]"]
        assert seat.shows("#details").splitlines() == [
            "with a body of 2MB",
            "no rule allows host new.test",
            "allowed by the service npm",
            "for longer than once: GET https://new.test/**",
        ]
        assert seat.shows("#title") == "app-1  these requests wait for you: unlisted  1 open, 0 granted"
        await pilot.press("a")
        assert (seat.connection.given, seat.said) == ([], ["the question has just changed; look again"])
        seat.now += SETTLE_SECONDS
        await pilot.press("a", "h", "s", "d", "p", "u")
        assert seat.connection.given == [
            (3, "once", None),
            (3, "time", 3600),
            (3, "stop", None),
            (3, "deny", None),
            (3, "GET https://new.test/**", "project", False),
            (3, "GET https://new.test/**", "user", False),
        ]
        assert seat.said[-1] == "policy.yaml:3: added"


@pytest.mark.parametrize("colours", [True, False])
async def test_colours_can_be_off(*, colours: bool) -> None:
    screen = WatchScreen(colours=colours)
    async with screen.run_test(size=(80, 24)) as pilot:
        screen.add("app-1", Answers())
        screen.show("app-1", State(questions=(ASKED,)))
        screen.report("app-1", RECORD)
        screen.show_new()
        await pilot.pause()
        styles = [part.style for strip in screen.screen._compositor.render_strips() for part in strip if part.style]
        shades = {colour.triplet for style in styles for colour in (style.color, style.bgcolor) if colour}
        assert any(shade and len({*shade}) > 1 for shade in shades) is colours
        assert len(shades) > 2


async def test_details_that_do_not_fit_scroll_and_keep_their_place() -> None:
    seat = Seat()
    risks = tuple(f"risk {number}" for number in range(12))
    state = State(ask="unlisted", questions=(replace(ASKED, risks=risks),))
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", state)
        await pilot.pause()
        pane = seat.screen.query_one(Details)
        assert (pane.size.height, pane.virtual_size.height, pane.show_vertical_scrollbar) == (8, 16, True)
        await pilot.press("tab", "end")
        seat.screen.show("app-1", state)
        await pilot.pause()
        assert (seat.screen.focused, pane.scroll_offset.y) == (pane, 8)
        fits = State(questions=(replace(ASKED, id=4),))
        seat.screen.show("app-1", fits)
        await pilot.pause()
        assert (pane.size.height, pane.scroll_offset.y, pane.show_vertical_scrollbar) == (4, 0, False)
        seat.screen.show("app-1", fits)
        await pilot.press("tab")
        assert seat.screen.focused == seat.screen.query_one("#requests")


async def test_only_rules_that_ask_make_requests_wait_without_settings_ask() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", State())
        await pilot.pause()
        assert seat.shows("#title") == "app-1  you are asked only where a rule has `ask: true`  0 open, 0 granted"


GONE_GROUP = "gone: requests under *.example.net: its client left, it was answered elsewhere, or it timed out"
GONE = "gone: GET https://new.test/[red]x[/]: its client left, it was answered elsewhere, or it timed out"


async def test_a_key_meant_for_one_question_does_not_answer_the_next() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", State(questions=(ASKED,)))
        await pilot.pause()
        seat.now += 60
        seat.screen.show("app-1", State(questions=(replace(ASKED, id=4),)))
        await pilot.pause()
        await pilot.press("a")
        assert (seat.connection.given, seat.said) == ([], [GONE, "the question has just changed; look again"])
        seat.screen.show("app-1", State(questions=(replace(ASKED, id=5), replace(ASKED, id=4))))
        seat.now += 60
        await pilot.pause()
        await pilot.press("a", "up")
        await pilot.pause()
        seat.now += 60
        await pilot.press("d")
        assert seat.connection.given == [(4, "once", None), (5, "deny", None)]
        seat.screen.show("app-1", State())
        await pilot.pause()
        await pilot.press("a")
        assert (len(seat.connection.given), seat.questions, len(seat.said)) == (2, [], 2)


async def test_a_flood_is_one_line_that_can_only_be_denied() -> None:
    seat = Seat()
    flood = tuple(replace(ASKED, id=number, host=f"h{number}.example.net") for number in range(1, 9))
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", State(questions=flood))
        await pilot.pause()
        seat.now += 60
        assert seat.questions == ["? 8 hosts under *.example.net"]
        await pilot.press("a", "p")
        assert seat.connection.given == []
        seat.screen.show("app-1", State(questions=flood[1:5]))
        seat.screen.show("app-1", State(questions=flood[2:5]))
        await pilot.pause()
        await pilot.press("a")  # now it is one question, which nobody has read
        assert (seat.connection.given, seat.said[-1]) == ([], "the question has just changed; look again")
        seat.screen.show("app-1", State(questions=flood))
        await pilot.pause()
        seat.now += 60
        await pilot.press("d")
        assert seat.connection.given == [(number, "deny", None) for number in range(1, 9)]
        seat.screen.show("app-1", State(questions=flood[:4]))
        seat.screen.show("app-1", State(questions=flood[4:8]))
        await pilot.pause()
        assert seat.said[-1] == "denied 8 requests under *.example.net"
        seat.screen.show("app-1", State())
        await pilot.pause()
        assert seat.said[-1] == GONE_GROUP


async def test_lists_and_filters_requests() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.decided(RECORD, RECORD | {"event": "health"}, RECORD | {"host": "c.test", "decision": "allow"})
        await pilot.pause()
        assert [row[:3] for row in seat.rows] == [
            ["x", "deny", "GET https://b.test/[red]x"],
            ["x", "allow", "GET https://c.test/[red]x"],
        ]
        assert seat.shows("#details").splitlines() == ["no [b]rule[/b]", "status 403"]
        seat.decided(RECORD | {"host": "c.test", "decision": "allow", "hint": "upload: sent [x] 9 MiB"})
        await pilot.pause()
        assert seat.rows[-1][1:] == [
            "allow!",
            "GET https://c.test/[red]x",
            "no [b]rule[/b]; hint: upload: sent [x] 9 MiB",
        ]
        assert "hint: upload: sent [x] 9 MiB" in seat.shows("#details")
        await pilot.press("slash", "c", ".", "t", "enter")
        await pilot.pause()
        assert [row[2] for row in seat.rows] == ["GET https://c.test/[red]x"] * 2
        await pilot.press("escape", "space")
        seat.decided(RECORD)
        await pilot.pause()
        assert len(seat.rows) == 3
        await pilot.press("space")
        assert len(seat.rows) == 4


def stacks_of(seat: Seat) -> list[str]:
    """Return the lines of the list of stacks; none while it is not shown."""
    shown = seat.screen.query_one("#stacks", OptionList)
    return [] if shown.has_class("empty") else [str(one.prompt) for one in shown.options]


async def test_several_stacks_are_listed_and_their_questions_name_them() -> None:
    seat, other = Seat(), Answers()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", State(ask="unlisted", questions=(ASKED,)))
        assert stacks_of(seat) == []
        seat.screen.add("app-2", other)
        seat.screen.show("app-2", State(questions=(ASKED, replace(ASKED, id=4))))
        await pilot.pause()
        assert stacks_of(seat) == ["    all", "?1  app-1", "?2  app-2"]
        assert seat.questions == [f"? [{name}] GET https://new.test/[red]x[/]" for name in ("app-1", "app-2", "app-2")]
        assert seat.shows("#title") == "2 stacks  3 open, 0 granted"
        seat.now += SETTLE_SECONDS
        await pilot.press("down")
        await pilot.pause()
        seat.now += SETTLE_SECONDS
        await pilot.press("a")
        assert (seat.connection.given, other.given) == ([], [(3, "once", None)])
        seat.screen._lost("app-1", "gone")
        assert stacks_of(seat) == ["    all", "off app-1", "?2  app-2"]


async def test_shows_the_requests_of_one_stack() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.add("app-2", Answers())
        seat.screen.show("app-2", State())
        for name in ("app-1", "app-2"):
            seat.screen.report(name, RECORD | {"host": f"{name}.test"})
        seat.screen.show_new()
        await pilot.pause()
        assert len(seat.rows) == 2
        seat.screen.query_one("#stacks", OptionList).focus()
        await pilot.press("down", "down")
        await pilot.pause()
        assert [row[2] for row in seat.rows] == ["GET https://app-2.test/[red]x"]
        seat.screen.show("app-1", State())
        await pilot.press("home")
        await pilot.pause()
        assert len(seat.rows) == 2


class Rooted(Answers):
    """A connection to a stack of this directory."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.project = replace(without_directory("app-1"), root=root)


async def test_a_rule_is_copied_from_a_question_or_for_a_denied_request(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat, copied = Seat(), list[str]()
    seat.screen.add("app-1", Rooted(project))
    monkeypatch.setattr(seat.screen, "copy_to_clipboard", copied.append)
    denied = RECORD | {"scheme": "https", "cause": "host", "event": "request", "path": "/x", "host": "b.example.com"}
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        await pilot.press("c")
        seat.decided(denied)
        await pilot.press("c")
        seat.decided(denied | {"decision": "allow"})
        await pilot.press("c")
        for question in (ASKED, replace(ASKED, id=4, asked_by_rule=True)):
            seat.screen.show("app-1", State(questions=(question,)))
            await pilot.pause()
            await pilot.press("c")
    assert copied == ["- GET https://b.example.com/x", "- GET https://new.test/**"]
    assert seat.said == [
        "copied, if your terminal allows it: - GET https://b.example.com/x",
        "copied, if your terminal allows it: - GET https://new.test/**",
        GONE,
        "https://new.test/[red]x[/]: its rule has `ask: true`; allow it for an hour, or remove `ask` from the policy",
    ]


async def test_the_line_of_the_policy_is_opened_in_the_editor(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seat, opened = Seat(), list[tuple[PolicyLine, Path]]()
    seat.screen.add("app-1", Rooted(project))
    monkeypatch.setattr(seat.screen, "suspend", nullcontext)
    monkeypatch.setattr(module, "edit", lambda place, _, *, project: opened.append((place, project)))
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.decided(RECORD | {"rule": "policy.yaml:6"})
        await pilot.press("e")
        seat.screen.show("app-1", State(questions=(replace(ASKED, reason="no: policy.yaml:4 allows GET"),)))
        await pilot.pause()
        await pilot.press("e")
    file = project / ".devcontainer" / "policy.yaml"
    assert opened == [(PolicyLine(file=file, line=6), project), (PolicyLine(file=file, line=4), project)]
    assert seat.said == []


@pytest.mark.parametrize("fails", ["no editor", "exit code", "no terminal"])
async def test_an_editor_that_fails_gives_the_screen_back(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, fails: str
) -> None:
    seat, folder = Seat(), tmp_path_factory.mktemp("editors")
    seat.screen.add("app-1", Rooted(project))
    (folder / "vi").write_text("#!/bin/sh\nexit 3\n")
    (folder / "vi").chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere" if fails == "no editor" else str(folder))
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    if fails == "exit code":
        monkeypatch.setattr(seat.screen, "suspend", nullcontext)
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.decided(RECORD)
        await pilot.press("e")
        assert seat.rows
    how = "export EDITOR=vim, or another one"
    assert seat.said == [
        {
            "no editor": f"EDITOR: not set, and none of sensible-editor, vi, nano is installed; {how}",
            "exit code": f"{folder / 'vi'}: ended with exit code 3; {how}",
            "no terminal": "no editor can run on this terminal; open the file elsewhere",
        }[fails]
    ]


NO_WAY = "no rule is suggested: the name resolves to an address that the sandbox cannot reach"


def keys(seat: Seat) -> str:
    """Return the keys that the footer shows."""
    return " ".join(binding.key for _, binding, *_ in seat.screen.screen.active_bindings.values() if binding.show)


async def test_shows_only_the_keys_that_do_something_now() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        shown = {"nothing": keys(seat)}
        seat.decided(RECORD | {"decision": "allow"})
        await pilot.pause()
        shown["allowed"] = keys(seat)
        seat.decided(RECORD)
        await pilot.pause()
        shown["denied"] = keys(seat)
        group = tuple(replace(ASKED, id=number, host=f"h{number}.example.net") for number in range(1, 9))
        for name, questions in (
            ("question", (ASKED,)),
            ("once", (replace(ASKED, id=4, rule=""),)),
            ("group", group),
        ):
            seat.screen.show("app-1", State(questions=questions))
            await pilot.pause()
            shown[name] = keys(seat)
    assert shown == {
        "nothing": "slash q",
        "allowed": "slash e q",
        "denied": "p slash e c q",
        "question": "a h s p u d slash e c q",
        "once": "a d slash e q",
        "group": "d slash e q",
    }


async def test_a_rule_for_a_denied_request_is_shown_and_written_after_a_yes(project: Path) -> None:
    seat, stack = Seat(), Rooted(project)
    seat.screen.add("app-1", stack)
    denied = RECORD | {"scheme": "https", "cause": "host", "event": "request", "path": "/x", "host": "b.example.com"}
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.decided(denied)
        for answer in ("n", "escape", "y"):
            await pilot.press("p")
            shown = str(seat.screen.screen.query_one(Static).render())
            assert "add GET https://b.example.com/x\n" in shown
            assert "+  - GET https://b.example.com/x" in shown
            seat.screen.show("app-1", State())  # what comes meanwhile does not disturb it
            assert stack.given == []
            await pilot.press(answer)
        await pilot.pause()
        seat.decided(denied | {"cause": "address"})
        await pilot.press("p")
    assert stack.given == [("GET https://b.example.com/x", "project")]
    assert seat.said == ["policy.yaml:3: added", NO_WAY]


async def test_begins_with_what_was_decided_before() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        before = [RECORD | {"path": f"/{number}"} for number in range(100)]
        seat.screen.begin("app-1", [*before, RECORD | {"event": "health"}])
        await pilot.pause()
        seat.decided(RECORD)
        await pilot.pause()
        assert [row[2] for row in seat.rows] == [
            *(f"GET https://b.test/{number}" for number in range(100)),
            "GET https://b.test/[red]x",
        ]
        assert seat.said == []


async def test_replies_and_errors_are_shown() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        await pilot.press("g")
        granted = State(
            questions=(replace(ASKED, id=99),),
            grants=(Grant(id=1, rule="GET https://a.test/**", who="ana", seconds_left=9),),
        )
        for found in (Reply(error=""), Reply(error="[x] closed"), granted):
            seat.screen.show("app-1", found)
        await pilot.pause()
        seat.now += 60
        await pilot.press("g", "a")
        assert seat.said == [
            "no grants",
            "done",
            "not done: [x] closed",
            "1  GET https://a.test/**  by ana",
            "app-1: the connection to the proxy is closed",
        ]


async def test_shows_the_last_decisions_of_a_flood_and_counts_the_others() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        for _ in range(3):
            seat.decided(*(RECORD | {"path": f"/{number}"} for number in range(1_000)), Dropped(count=7))
            await pilot.pause()
        assert [row[2] for row in seat.rows][-AT_ONCE:] == [f"GET https://b.test/{n}" for n in range(960, 1_000)]
        assert (len(seat.rows), len(seat.said)) == (3 * AT_ONCE, 1)
        seat.now += MISSED_SECONDS
        seat.decided()
        await pilot.pause()
        assert seat.said == [
            f"{count} decisions came too fast; agent-sandbox proxy logs has them" for count in (967, 1934)
        ]


async def test_the_list_of_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_sandbox.features.watch.watching.request_table.KEPT", 50)
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        for _ in range(3):
            seat.decided(*[RECORD] * AT_ONCE)
        await pilot.pause()
        assert (len(seat.rows), len(seat.screen._table._shown)) == (50, 50)


@pytest.mark.parametrize("lost", [False, True])
async def test_reports_come_from_another_thread(*, lost: bool) -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.show("app-1", State(questions=(ASKED,)))
        act = (
            (lambda: seat.screen.lost("app-1", "gone"))
            if lost
            else (lambda: seat.screen.report("app-1", State(questions=(ASKED,))))
        )
        thread = threading.Thread(target=act)
        thread.start()
        while thread.is_alive():
            await pilot.pause()
        await pilot.pause()
        assert (len(seat.questions), seat.said) == ((0, ["gone"]) if lost else (1, []))


async def test_reports_that_come_after_the_screen_has_closed_are_dropped() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)):
        pass
    await asyncio.to_thread(seat.screen.lost, "app-1", "gone")
    await asyncio.to_thread(seat.screen.report, "app-1", State(questions=(ASKED,)))
    assert seat.said == []


async def test_a_line_lists_what_listens_inside_and_keys_open_and_close_the_newest() -> None:
    seat = Seat()
    node = PortInside(port=8080, command="/usr/bin/node x.js", arrival=1)
    python = PortInside(port=39215, command="python3", arrival=2)
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        line = seat.screen.query_one("#ports", Static)
        await pilot.press("o", "x")
        assert (line.size.height, seat.connection.given, seat.said) == (0, [], [])
        seat.screen.report_ports("app-1", Inside(ports=(python, node)))
        await pilot.pause()
        assert seat.shows("#ports") == "listening inside: 39215 python3 (o opens it), 8080 node"
        await pilot.press("o")
        assert (seat.connection.given, seat.said) == ([], ["the ports have just changed; look again"])
        seat.now += SETTLE_SECONDS
        await pilot.press("o")
        opened = (replace(python, here=39215), node)
        seat.screen.report_ports("app-1", Inside(ports=opened, note="http://127.0.0.1:39215  port 39215 of [b]"))
        await pilot.pause()
        assert seat.shows("#ports") == ("listening inside: 8080 node (o opens it), 39215 python3 (open, x closes it)")
        assert (line.size.height, seat.said[-1]) == (1, "http://127.0.0.1:39215  port 39215 of [b]")
        await pilot.press("x")
        assert seat.connection.given == [("open", 39215, 39215), ("close", 39215)]
        seat.screen.report_ports("app-1", Inside())
        await pilot.pause()
        assert line.size.height == 0


async def test_ports_of_several_stacks_have_their_names_and_long_lists_are_cut_at_the_edge() -> None:
    seat = Seat()
    async with seat.screen.run_test(size=(80, 24)) as pilot:
        seat.screen.add("app-2", Answers())
        many = tuple(PortInside(port=9000 + n, command="a" * 200, arrival=n, here=9000 + n) for n in range(9, 0, -1))
        seat.screen.report_ports("app-2", Inside(ports=many))
        seat.screen.report_ports("app-1", Inside(ports=(PortInside(port=1, arrival=10), PortInside(port=2, arrival=3))))
        await pilot.pause()
        start = f"listening inside: [app-1] 1 (o opens it), [app-2] 9009 {'a' * 16} (open, x closes it), "
        assert seat.shows("#ports").startswith(start)
        (strip,) = seat.screen.query_one("#ports", Static).render_lines(seat.screen.query_one("#ports").size.region)
        assert (len(strip.text), strip.text[-1]) == (80, "…")
