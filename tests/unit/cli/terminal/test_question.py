import io
import re
import sys
from pathlib import Path

import pytest

from agent_sandbox import cli
from agent_sandbox.cli.terminal.question import agrees, answer_to, choice
from fake_tty import Person, Screen


@pytest.mark.parametrize(
    ("typed", "answer", "is_yes"),
    [("y\n", "y", True), (" YES \n", "yes", True), ("n\n", "n", False), ("\n", "", False), ("", None, False)],
)
def test_only_a_typed_yes_counts_as_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, answer: str | None, *, is_yes: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    assert answer_to("Which?") == answer
    monkeypatch.setattr(sys, "stdin", Person(typed))
    assert agrees("Sure?") == is_yes
    assert capsys.readouterr() == ("", "Which? Sure? [y/N] ")


def test_the_end_of_the_input_leaves_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Person("Y\n"))
    assert (choice("Add it? [y/N/q]"), choice("Add it? [y/N/q]")) == ("y", "q")


def test_a_long_question_is_wrapped_and_shows_no_control_character(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "40")
    answer_to("This may run on your machine: \x1b[2Jevil. Did you write it?")
    assert screen.getvalue().splitlines() == ["This may run on your machine:", "  \\x1b[2Jevil. Did you write it? "]


def test_wraps_everything_that_it_prints() -> None:
    """All other modules of `cli` print through `terminal`, which wraps, escapes and colours."""
    past = re.compile(r"std(?:out|err)\.write|\bprint\(|typer\.(?:echo|confirm)|\binput\(|\.readline\(")
    folder = Path(cli.__file__).parent
    files = [file for file in folder.rglob("*.py") if file.relative_to(folder).parts[0] != "terminal"]
    assert {file.name: found for file in files if (found := past.findall(file.read_text()))} == {}
