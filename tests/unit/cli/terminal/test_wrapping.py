import io
import os
import pty
import re
import termios

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.cli.terminal.wrapping import cells, hanging_indent, width_of, wrapped
from fake_tty import Screen
from table_tests import each

CHECK = "warn  disk        4 GB are free where the engine keeps images, and a build needs 10 GB"


def rows(line: str, width: int, whole: tuple[tuple[int, int], ...] = ()) -> list[str]:
    indent, found = wrapped(line, width, whole)
    first, *others = (line[start:end] for start, end in found)
    return [first, *(" " * indent + other for other in others)]


@each(
    ("width", "expected"),
    [
        (120, [CHECK]),
        (
            80,
            [
                "warn  disk        4 GB are free where the engine keeps images, and a build needs",
                "                  10 GB",
            ],
        ),
        (
            40,
            [
                "warn  disk        4 GB are free where",
                "                  the engine keeps",
                "                  images, and a build",
                "                  needs 10 GB",
            ],
        ),
        (0, [CHECK]),
    ],
)
def test_text_continues_below_its_column(width: int, expected: list[str]) -> None:
    assert rows(CHECK, width) == expected


@each(
    ("line", "expected"),
    [
        ("error: policy.yaml:3:5: unknown key", 7),
        ("  hint: did you mean it", 8),
        ("warning: x", 9),
        ("note: x", 6),
        ("  careful: x", 11),
        ("plain words", 2),
        ("  - plain words", 4),
        ("                  a hint of the doctor", 18),
        ("  nearest   policy.yaml:2 allows it", 12),
        (f"{'a' * 50}  b", 2),
        ("error:x", 2),
    ],
)
def test_the_hanging_indent_follows_from_the_line(line: str, expected: int) -> None:
    assert hanging_indent(line, 120) == expected


def test_an_indent_takes_at_most_half_of_the_terminal() -> None:
    assert hanging_indent(f"{' ' * 30}text", 40) == 20


@each(
    ("line", "whole", "expected"),
    [
        ("say: run this command now please", ((5, 21),), ["say:", "  run this command", "  now please"]),
        # What is too long for a row stays in one piece, to be copied.
        (f"run: {'a' * 18} b then more", ((5, 25),), ["run:", f"  {'a' * 18} b", "  then more"]),
        (f"see {'x' * 30}", (), ["see", f"  {'x' * 30}"]),
        ("日本日本 日本日本 日本日本", (), ["日本日本 日本日本", "  日本日本"]),
        # A break at the indent would win no room.
        (f"ok    {'x' * 30} y", (), [f"ok    {'x' * 30}", "      y"]),
        # A column further right goes below.
        ("ok  GET /x   the long reason", (), ["ok  GET /x", "    the long reason"]),
        ("ok  GET /x   a  b cc  d e f g h", (), ["ok  GET /x", "    a  b cc  d e f g", "    h"]),
        # The terminal itself would break a row with tabs that only seems to fit, and in the first column.
        ("a\tb\tc\terror: x", (), ["a", "  b\tc", "  error: x"]),
    ],
)
def test_words_and_commands_are_never_broken(
    line: str, whole: tuple[tuple[int, int], ...], expected: list[str]
) -> None:
    assert rows(line, 20, whole) == expected


@given(
    text=st.text("ab 日  ", max_size=80), width=st.integers(20, 40), start=st.integers(0, 80), size=st.integers(0, 80)
)
def test_every_word_is_kept_in_its_order(text: str, width: int, start: int, size: int) -> None:
    assert " ".join(rows(text, width, ((start, start + size),))).split() == text.split()


@given(text=st.text("ab:  error: - ", max_size=120), width=st.integers(20, 40))
def test_untrusted_text_never_begins_in_the_first_column(text: str, width: int) -> None:
    assert [row for row in rows(f"a.test {text}", width)[1:] if not row.startswith("  ")] == []


@given(text=st.text("ab \t", max_size=80), width=st.integers(20, 40))
def test_no_row_of_short_words_is_wider_than_the_terminal(text: str, width: int) -> None:
    short = " ".join(word if word.isspace() else word[:5] for word in re.split(r"(\t)| ", text) if word)
    assert max(map(cells, rows(short.strip(), width))) <= width


def test_does_not_wrap_piped_output() -> None:
    assert width_of(io.StringIO(), {"COLUMNS": "40"}) == 0


@each(
    ("columns", "expected"),
    [("40", 40), ("19", 0), ("0", 0), ("-1", 0), ("wide", 0), ("99999", 0), ("", 0)],
)
def test_columns_sets_the_width(columns: str, expected: int) -> None:
    assert width_of(Screen(), {"COLUMNS": columns}) == expected  # of which the engine of a `StringIO` knows nothing


def test_a_terminal_knows_its_width() -> None:
    leader, follower = pty.openpty()
    try:
        termios.tcsetwinsize(follower, (24, 97))
        with os.fdopen(os.dup(follower), "w") as stream:
            assert width_of(stream, {}) == 97
            assert width_of(stream, {"COLUMNS": "wide"}) == 97
    finally:
        os.close(leader)
        os.close(follower)


def test_a_word_that_is_too_wide_for_its_column_moves_the_rows_to_the_left() -> None:
    image = "agent-sandbox/agent-claude-codex-1000-1000-0123456789abcdef:0.1.0"
    assert rows(f"  agent      healthy  {image}  restarted once", 80) == [
        "  agent      healthy",
        f"               {image}",
        "               restarted once",
    ]
