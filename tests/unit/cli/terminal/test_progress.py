import io
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from agent_sandbox.cli.terminal.progress import Lines, LiveLine, cut, progress, shortened
from agent_sandbox.engines.events import Event, Finished, Progressed, Started, Unneeded
from fake_tty import Screen
from table_tests import each

ERASE = "\r\x1b[K"
BUILD = Started(purpose="building b:1", total=2)
BASE = Progressed(done=0, doing="[x 1/2] FROM y")
RUN = Progressed(done=1, doing="[x 2/2]  RUN   z")
START = Started(purpose="starting")
DONE = Finished(purpose="")

type Script = tuple[Event | float, ...]


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 10.0

    def __call__(self) -> float:
        return self.now


def lines_of(*script: Event | float) -> list[str]:
    """Return what `Lines` prints: a number moves the clock, and then it ticks."""
    said: list[str] = []
    clock = Clock()
    lines = Lines(clock=clock, say=said.append)
    _play(lines.tell, lines.tick, clock, script)
    return said


def _play(tell: Callable[[Event], None], tick: Callable[[], None], clock: Clock, script: Script) -> None:
    for one in script:
        if isinstance(one, float):
            clock.now += one
            tick()
        else:
            tell(one)


@each(
    ("script", "expected"),
    [
        ((BUILD, BASE, RUN, DONE), []),
        ((BUILD, BASE, 0.9, DONE, 5.0), []),
        ((BUILD, 1.0), ["building b:1 ..."]),
        ((BUILD, BASE, 1.0, RUN), ["building b:1 ...", "  1/2 [x 1/2] FROM y", "  2/2 [x 2/2] RUN z"]),
        ((BUILD, 2.5, DONE), ["building b:1 ...", "  done in 2.5 s"]),
        ((BUILD, 2.5, Progressed(done=1, doing="finishing"), RUN, RUN), ["building b:1 ...", "  2/2 [x 2/2] RUN z"]),
        ((BUILD, DONE, START, 1.5, Progressed(done=0, doing="proxy ready")), ["starting ...", "  proxy ready"]),
        ((Unneeded(name="a:1"),), ["a:1 is up to date"]),
    ],
)
def test_prints_to_a_pipe_only_steps_longer_than_a_second(script: Script, expected: list[str]) -> None:
    assert lines_of(*script) == expected


def test_a_step_that_ends_between_two_ticks_is_printed_whole() -> None:
    said: list[str] = []
    clock = Clock()
    lines = Lines(clock=clock, say=said.append)
    lines.tell(BUILD)
    clock.now += 3
    lines.tell(DONE)
    assert said == ["building b:1 ...", "  done in 3.0 s"]


def shown_by(*script: Event | float, columns: int = 80) -> str:
    """Return what a terminal is sent."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patched:
        screen = Screen()
        patched.setattr(sys, "stderr", screen)
        patched.setenv("COLUMNS", str(columns))
        patched.setenv("NO_COLOR", "1")
        live = LiveLine(stream=screen, clock=clock)
        _play(live.tell, live.tick, clock, script)
    return screen.getvalue()


@each(
    ("columns", "script", "expected"),
    [
        (80, (BUILD, BASE, RUN, DONE, 5.0), ""),
        (80, (BUILD, 1.0), f"{ERASE}building b:1  1/2  1 s"),
        (80, (BUILD, 2.0, RUN), f"{ERASE}building b:1  1/2  2 s{ERASE}building b:1  2/2  2 s  [x 2/2] RUN z"),
        (80, (START, 1.0, DONE), f"{ERASE}starting  1 s{ERASE}starting: done in 1.0 s\n"),
        (30, (BUILD, BASE, 2.0), f"{ERASE}building b:1  1/2  2 s  [x..."),
        (80, (START, 1.0, Unneeded(name="a")), f"{ERASE}starting  1 s{ERASE}a is up to date\n{ERASE}starting  1 s"),
        (80, (START, 1.0, 0.1, 0.1), f"{ERASE}starting  1 s"),
        # Not more than there are, if the file has more steps than were counted.
        (80, (BUILD, Progressed(done=5, doing="")), ""),
        (80, (BUILD, Progressed(done=5, doing=""), 1.0), f"{ERASE}building b:1  2/2  1 s"),
    ],
)
def test_a_terminal_gets_one_line_that_changes(columns: int, script: Script, expected: str) -> None:
    assert shown_by(*script, columns=columns) == expected


def test_the_line_has_no_escape_codes_or_markup_of_others() -> None:
    shown = shown_by(Started(purpose="[red]\x1b[31mx"), Progressed(done=0, doing="\x1b[2J\r\n"), 1.0)
    assert shown == f"{ERASE}[red]\\x1b[31mx  1 s  \\x1b[2J"


def _interrupted() -> None:
    with progress(quiet=False) as tell:
        tell(Unneeded(name="a"))
        tell(START)
        tell(Progressed(done=0, doing="x"))
        raise KeyboardInterrupt


@pytest.mark.parametrize("environ", [{"COLUMNS": "80"}, {"COLUMNS": "80", "TERM": "dumb"}, {"COLUMNS": "0"}])
def test_erases_the_line_however_the_block_ends(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("agent_sandbox.cli.terminal.progress.PATIENCE", 0)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    live = environ == {"COLUMNS": "80"}
    assert screen.getvalue().endswith(ERASE) == live
    assert ("\x1b" in screen.getvalue()) == live
    assert "up to date" not in screen.getvalue()


def test_reports_an_unneeded_step_if_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress(quiet=False, lists_current=True) as tell:
        tell(Unneeded(name="a"))
    assert pipe.getvalue() == "a is up to date\n"


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_sandbox.cli.terminal.progress.PATIENCE", 0)
    with progress(quiet=True, lists_current=True) as tell:
        for event in (Unneeded(name="a"), BUILD, BASE, DONE):
            tell(event)
    assert capsys.readouterr() == ("", "")


@each(("text", "expected"), [("a  b\n c", "a b c"), ("abcdefghij", "abcdefghij"), ("a" * 11, "aaaaaaa...")])
def test_a_long_text_is_cut(text: str, expected: str) -> None:
    assert shortened(text, 10) == expected


@each(("width", "expected"), [(8, "日本日本"), (7, "日本..."), (6, "日..."), (0, "...")])
def test_a_wide_letter_takes_two_columns(width: int, expected: str) -> None:
    assert cut("日本日本", width) == expected
