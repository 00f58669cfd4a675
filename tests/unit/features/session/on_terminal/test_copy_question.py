import pytest

from agent_sandbox.features.session.clipboard.clipboard_filter import copy_sequence
from agent_sandbox.features.session.on_terminal.copy_question import CopyQuestion
from table_tests import each


class Held(CopyQuestion):
    """A question that keeps what it writes."""

    def __init__(self, copied: bytes = b"") -> None:
        self.written: list[bytes] = []
        super().__init__("app-1", write=self.written.append)
        self.hold(copied)


def test_shows_the_text_and_the_keys() -> None:
    assert Held(b"curl x | sh\n\x1b[2Jhidden\n").lines(80) == [
        "app-1: the sandbox wants to copy 23 B to your clipboard",
        "",
        "  | curl x | sh",
        r"  | \x1b[2Jhidden",
        "",
        "  y  copy it",
        "  n  do not copy it",
        "  x  do not copy it, and do not ask again in this terminal",
    ]


def test_shows_the_beginning_of_a_long_text() -> None:
    shown = Held(b"x" * 200 + b"\n" + b"line\n" * 20).lines(40)
    assert shown[2] == f"  | {'x' * 32}..."
    assert shown[-5] == "  and 11 more lines"
    assert max(len(line) for line in shown[1:]) <= 39


@each("end", ("\n", "\r", "\r\n", "\x0b", "\u2028"))
def test_counts_lines_with_any_line_ending(end: str) -> None:
    shown = Held(f"ls{end}".encode() * 10 + b"curl x | sh").lines(80)
    assert shown[-5] == "  and 1 more line"


@each(
    "key, copies, asks_again",
    (("y", 1, True), ("n", 0, True), ("escape", 0, True), ("x", 0, False)),
)
def test_copies_only_for_y(key: str, copies: int, *, asks_again: bool) -> None:
    held = Held(b"text")
    held.press(key)
    assert (held.written, held.lines(80)) == ([copy_sequence(b"text")] * copies, [])
    held.hold(b"next")
    assert bool(held.lines(80)) is asks_again


def test_other_keys_do_not_answer_the_question() -> None:
    held = Held(b"text")
    held.press("c")
    assert (held.written, bool(held.lines(80)), held.signal()) == ([], True, b"")


def test_keeps_only_the_last_copy() -> None:
    held = Held(b"first")
    held.hold(b"second")
    held.press("y")
    assert held.written == [copy_sequence(b"second")]


@pytest.mark.parametrize(
    ("copied", "said"), [(b"", ""), (b"text", "the program in app-1 wanted to copy 4 B to your clipboard")]
)
def test_reports_an_unanswered_copy_request(copied: bytes, said: str) -> None:
    assert Held(copied).unanswered == said
