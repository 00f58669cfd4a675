"""A table that is one test reports each of its failing rows."""

import pytest

from table_tests import each


def halves(number: int, expected: int) -> None:
    assert number // 2 == expected
    if number < 0:
        pytest.fail("below zero")


def test_passing_rows_raise_nothing() -> None:
    each(("number", "expected"), [(2, 1), (5, 2)])(halves)()


def test_reports_every_failing_row_with_its_values() -> None:
    with pytest.raises(BaseExceptionGroup) as told:
        each("number, expected", [(2, 2), (4, 2), (-2, -1)])(halves)()
    assert told.value.message == "2 of 3 rows"
    notes = [note for failure in told.value.exceptions for note in failure.__notes__]
    assert notes == ["row 0 of 3: {'number': 2, 'expected': 2}", "row 2 of 3: {'number': -2, 'expected': -1}"]


@pytest.fixture
def limit() -> int:
    return 3


@each("number", range(3))
def test_parameters_without_a_column_are_fixtures(number: int, limit: int) -> None:
    assert number < limit


@each("first", ("a", "b"))
@each("second", ("c", "d"))
def test_tables_can_be_stacked(first: str, second: str) -> None:
    assert first < second


def test_rejects_a_table_without_rows() -> None:
    with pytest.raises(ValueError, match="a table without rows proves nothing: number"):
        each("number", [])


def test_rejects_a_row_with_too_few_values() -> None:
    with pytest.raises(ValueError, match="shorter"):
        each(("number", "expected"), [(1,)])
