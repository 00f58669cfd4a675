import pytest

from agent_sandbox.cli.terminal.progress import Lines, progress, shortened
from agent_sandbox.runtime.events import Finished, Progressed, Started, Unneeded

EVENTS = (
    Unneeded(name="a:1"),
    Started(purpose="building b:1", total=2),
    Progressed(done=0, doing="[x 1/2] FROM y"),
    Progressed(done=1, doing="finishing"),
    Progressed(done=1, doing="[x 2/2]  RUN   z"),
    Progressed(done=1, doing="[x 2/2]  RUN   z"),
    Finished(purpose="building b:1"),
    Started(purpose="starting"),
    Progressed(done=0, doing="proxy ready"),
    Progressed(done=0, doing="agent started"),
    Progressed(done=0, doing="proxy ready"),
)


def test_lines_say_what_begins_and_how_long_it_took() -> None:
    said: list[str] = []
    times = iter((1.0, 3.5, 4.0))
    lines = Lines(clock=lambda: next(times), say=said.append)
    for event in EVENTS:
        lines.tell(event)
    assert said == [
        "a:1 is up to date",
        "building b:1 ...",
        "  1/2 [x 1/2] FROM y",
        "  2/2 [x 2/2] RUN z",
        "  done in 2.5 s",
        "starting ...",
        "  proxy ready",
        "  agent started",
    ]


def test_a_terminal_gets_a_bar_and_no_markup_of_somebody_elses(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(quiet=False, terminal=True) as tell:
        for event in EVENTS:
            tell(event)
        tell(Started(purpose="[red]\x1b[31mx"))
        tell(Finished(purpose="x"))
    err = capsys.readouterr().err
    assert "building b:1" in err
    assert "2/2" in err
    assert "[red]\\x1b[31mx" in err


def test_quiet_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(quiet=True, terminal=True) as tell:
        for event in EVENTS:
            tell(event)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "expected"), [("a  b\n c", "a b c"), ("abcdefghij", "abcdefghij"), ("a" * 11, "aaaaaaa...")]
)
def test_a_long_text_is_cut(text: str, expected: str) -> None:
    assert shortened(text, 10) == expected
