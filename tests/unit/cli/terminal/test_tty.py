import io
import sys
from typing import override

import pytest

from agent_sandbox.backends.verbs import Terminal
from agent_sandbox.cli.terminal.tty import terminal


class Tty(io.StringIO):
    """A stream that is a terminal."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdin", "stdout", "expected"),
    [
        (Tty(), Tty(), Terminal.ATTACHED),
        (io.StringIO(), Tty(), Terminal.NONE),
        (Tty(), io.StringIO(), Terminal.NONE),
    ],
)
def test_both_ends_have_to_be_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO, stdout: io.StringIO, expected: Terminal
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    assert terminal() is expected
