import io
import sys

import pytest

from agent_sandbox.cli.terminal.tty import at_terminal, session_environment, terminal_environment
from agent_sandbox.stack.containers import OPEN_URL
from fake_tty import Screen
from table_tests import each


@pytest.mark.parametrize(
    ("stdin", "stdout", "expected"),
    [
        (Screen(), Screen(), True),
        (io.StringIO(), Screen(), False),
        (Screen(), io.StringIO(), False),
    ],
)
def test_requires_a_terminal_for_input_and_output(
    monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO, stdout: io.StringIO, *, expected: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    assert at_terminal() is expected


@each(
    ("environ", "expected"),
    [
        (
            {"TERM": "xterm-kitty", "COLORTERM": "truecolor", "LANG": "C"},
            {"TERM": "xterm-kitty", "COLORTERM": "truecolor"},
        ),
        ({"TERM": "screen.xterm-256color+x"}, {"TERM": "screen.xterm-256color+x"}),
        ({"TERM": "a" * 64, "COLORTERM": "24bit"}, {"TERM": "a" * 64, "COLORTERM": "24bit"}),
        ({"TERM": "", "COLORTERM": ""}, {}),
        ({}, {}),
        # What is no plain name does not go into the container.
        ({"TERM": "a" * 65}, {}),
        ({"TERM": "xterm\nX=1"}, {}),
        ({"TERM": "xterm\n"}, {}),
        ({"TERM": "\x1b[2J"}, {}),
        ({"TERM": "-V"}, {}),
        ({"TERM": "../x"}, {}),
        ({"TERM": "a b"}, {}),
        ({"TERM": "$(id)"}, {}),
        ({"TERM": "xtérm"}, {}),
        ({"COLORTERM": "true;color"}, {}),
    ],
)
def test_only_plain_names_describe_the_terminal(environ: dict[str, str], expected: dict[str, str]) -> None:
    assert terminal_environment(environ) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [(Screen(), {"TERM": "xterm-kitty", "BROWSER": OPEN_URL}), (io.StringIO(), {})],
)
def test_passes_terminal_variables_only_if_there_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, expected: dict[str, str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.delenv("COLORTERM", raising=False)
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, stream)
    assert session_environment() == expected
