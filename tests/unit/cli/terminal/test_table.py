import pytest

from agent_sandbox.cli.terminal import table as subject
from agent_sandbox.cli.terminal.table import table
from table_tests import each

ROWS = [("1", ("deny", "deny"), "GET https://example.com/a"), ("22", ("allow", "allow"), "日本\x1b[2J")]
HEADINGS = (">NO", "DECISION", "REQUEST")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert [*table(HEADINGS, ROWS, cut=2)] == [
        "NO  DECISION  REQUEST",
        " 1  deny      GET https://example.com/a",
        "22  allow     日本\\x1b[2J",
    ]


def test_a_row_without_trailing_cells_is_shorter() -> None:
    assert [*table(HEADINGS, [("1", "", "")], cut=2)] == ["NO  DECISION  REQUEST", " 1"]


@each(
    ("width", "expected"),
    [
        (0, "1  a.test  /xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        (40, "1  a.test  /xxxxxxxxxxxxxxxxxxxxxxxxx..."),
        (20, "1  a.test  /xxxxxxxxxxxxxxxx..."),
    ],
)
def test_one_column_is_shortened_until_a_row_fits(width: int, expected: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "width_of", lambda *_: width)
        _, row = table(("N", "HOST", "PATH"), [("1", "a.test", "/" + "x" * 38)], cut=2)
    assert row == expected


def test_only_marked_cells_have_a_style() -> None:
    _, row, _ = table(HEADINGS, ROWS, cut=2)
    assert [part for part in row.parts if part[1]] == [("deny", "deny")]
