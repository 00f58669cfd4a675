import os

import pytest

from agent_sandbox.cli.terminal.redraw import ENTER, LEAVE, redrawing
from agent_sandbox.cli.terminal.style import styled
from fake_tty import Screen


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have 20 columns, and colours only if a test asks."""
    for name, value in (("COLUMNS", "20"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)


def test_each_screen_replaces_the_previous_one_and_the_terminal_is_restored() -> None:
    screen = Screen()
    with redrawing(screen) as show:
        show(["one", styled(("two\x1b[2J", "warn"))])
        show([])
    first, second = "\x1b[H\x1b[2Kone\n\x1b[2Ktwo\\x1b[2J\x1b[J", "\x1b[H\x1b[J"
    assert screen.getvalue() == f"{ENTER}{first}{second}{LEAVE}"


def test_restores_the_terminal_after_a_failure() -> None:
    screen = Screen()
    with pytest.raises(KeyboardInterrupt), redrawing(screen):
        raise KeyboardInterrupt
    assert screen.getvalue() == f"{ENTER}{LEAVE}"


def test_lines_that_do_not_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(Screen, "fileno", lambda _self: 1, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: os.terminal_size((20, 3)))
    with redrawing(screen) as show:
        show(["a word or two, and more", "second", "third"])
    shown = screen.getvalue().removeprefix(f"{ENTER}\x1b[H").removesuffix(f"\x1b[J{LEAVE}")
    rows = [row.removeprefix("\x1b[2K") for row in shown.split("\n")]
    assert rows == ["a word or two, and", "  more", "... 2 more lines do not fit"]
