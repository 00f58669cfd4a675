import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.body_size import HOW, parse_body_size, shown_size
from table_tests import each


@each(
    ("written", "size"),
    [(0, 0), (1234, 1234), ("0B", 0), ("12B", 12), ("500KB", 500_000), ("1MiB", 1_048_576), ("2 GiB", 2_147_483_648)],
)
def test_a_size_is_a_number_of_bytes_or_one_with_a_unit(written: object, size: int) -> None:
    assert parse_body_size(written) == size


@each(
    ("written", "what"),
    [
        (-1, "not a size: `-1`"),
        (True, "a size has to be a number of bytes"),
        ([], "a size has to be a number of bytes"),
        ("1M", "not a size: '1M'"),
        ("1mib", "not a size: '1mib'"),
        ("1.5MiB", "not a size: '1.5MiB'"),
        ("-1KB", "not a size: '-1KB'"),
        ("010KB", "not a size: '010KB'"),
        ("1000", "not a size: '1000'"),
        ("9999999999KB", "not a size: '9999999999KB'"),
        ("\u0661KB", r"not a size: '\u0661KB'"),
        ("1KB\n", r"not a size: '1KB\n'"),
    ],
)
def test_what_is_no_size_is_told_with_the_units_that_there_are(written: object, what: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_body_size(written)
    assert (invalid.value.what, invalid.value.hint) == (what, HOW)


@each(
    ("size", "told"),
    [(0, "0B"), (999, "999B"), (1000, "1KB"), (1024, "1KiB"), (1_048_576, "1MiB"), (1_000_001, "1000001B")],
)
def test_a_size_is_shown_in_the_unit_that_it_is_a_multiple_of(size: int, told: str) -> None:
    assert shown_size(size) == told
    assert parse_body_size(told) == size
