"""A table that is one test still tells each of its rows that fails."""

import pytest

from table_tests import each


def halves(number: int, expected: int) -> None:
    assert number // 2 == expected
    if number < 0:
        pytest.fail("below zero")


def test_rows_that_hold_are_silent() -> None:
    each(("number", "expected"), [(2, 1), (5, 2)])(halves)()


def test_every_row_that_fails_is_told_with_its_values() -> None:
    with pytest.raises(BaseExceptionGroup) as told:
        each("number, expected", [(2, 2), (4, 2), (-2, -1)])(halves)()
    assert told.value.message == "2 of 3 rows"
    notes = [note for failure in told.value.exceptions for note in failure.__notes__]
    assert notes == ["row 0 of 3: {'number': 2, 'expected': 2}", "row 2 of 3: {'number': -2, 'expected': -1}"]


@pytest.fixture
def limit() -> int:
    return 3


@each("number", range(3))
def test_what_no_column_names_is_a_fixture(number: int, limit: int) -> None:
    assert number < limit


@each("first", ("a", "b"))
@each("second", ("c", "d"))
def test_tables_stack(first: str, second: str) -> None:
    assert first < second


def test_a_table_without_rows_is_no_test() -> None:
    with pytest.raises(ValueError, match="a table without rows proves nothing: number"):
        each("number", [])


def test_a_row_too_short_is_a_mistake_of_the_table() -> None:
    with pytest.raises(ValueError, match="shorter"):
        each(("number", "expected"), [(1,)])
