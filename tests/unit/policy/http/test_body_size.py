import pytest

from agent_sandbox.policy.errors import Unfit
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
        (-1, "`-1` is no size"),
        (True, "a size is a number of bytes"),
        ([], "a size is a number of bytes"),
        ("1M", "'1M' is no size"),
        ("1mib", "'1mib' is no size"),
        ("1.5MiB", "'1.5MiB' is no size"),
        ("-1KB", "'-1KB' is no size"),
        ("010KB", "'010KB' is no size"),
        ("1000", "'1000' is no size"),
        ("9999999999KB", "'9999999999KB' is no size"),
        ("\u0661KB", r"'\u0661KB' is no size"),
        ("1KB\n", r"'1KB\n' is no size"),
    ],
)
def test_what_is_no_size_is_told_with_the_units_that_there_are(written: object, what: str) -> None:
    with pytest.raises(Unfit) as unfit:
        parse_body_size(written)
    assert (unfit.value.what, unfit.value.hint) == (what, HOW)


@each(
    ("size", "told"),
    [(0, "0B"), (999, "999B"), (1000, "1KB"), (1024, "1KiB"), (1_048_576, "1MiB"), (1_000_001, "1000001B")],
)
def test_a_size_is_shown_in_the_unit_that_it_is_a_multiple_of(size: int, told: str) -> None:
    assert shown_size(size) == told
    assert parse_body_size(told) == size
