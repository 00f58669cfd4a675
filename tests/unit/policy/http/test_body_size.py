import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.body_size import (
    HOW,
    Budget,
    Rate,
    parse_body_size,
    parse_count_rate,
    parse_size_rate,
    shown_rate,
    shown_size,
)
from table_tests import each


@each(
    ("written", "size"),
    [(0, 0), (1234, 1234), ("0B", 0), ("12B", 12), ("500KB", 500_000), ("1MiB", 1_048_576), ("2 GiB", 2_147_483_648)],
)
def test_parses_a_size_in_bytes_or_with_a_unit(written: object, size: int) -> None:
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
def test_rejects_an_invalid_size_with_a_hint(written: object, what: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_body_size(written)
    assert (invalid.value.what, invalid.value.hint) == (what, HOW)


@each(
    ("size", "told"),
    [(0, "0B"), (999, "999B"), (1000, "1KB"), (1024, "1KiB"), (1_048_576, "1MiB"), (1_000_001, "1000001B")],
)
def test_shows_a_size_in_the_largest_unit_that_divides_it(size: int, told: str) -> None:
    assert shown_size(size) == told
    assert parse_body_size(told) == size


@each(
    ("text", "rate", "shown"),
    [
        ("100/min", Rate(100, 60), "100 requests per min"),
        ("1/hour", Rate(1, 3_600), "1 requests per hour"),
        ("9/day", Rate(9, 86_400), "9 requests per day"),
    ],
)
def test_parses_and_shows_a_number_of_requests_per_time(text: str, rate: Rate, shown: str) -> None:
    assert (parse_count_rate(text), shown_rate("requests", rate)) == (rate, shown)


@each(
    ("text", "what"),
    [
        ("0/min", "not a number of requests: '0'"),
        ("1", "not an amount per time: '1'"),
        ("1/week", "not an amount per time: '1/week'"),
        ("1.5/min", "not a number of requests: '1.5'"),
    ],
)
def test_rejects_an_invalid_number_of_requests_per_time(text: str, what: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_count_rate(text)
    hint = "write an amount per min, hour, day, such as `100/min`"
    assert (invalid.value.what, invalid.value.hint) == (what, hint)


@each("text", ["0B/day", "1M/day", "5/day", "1MiB", "1MiB/", "/day", "1MiB/day/day"])
def test_rejects_an_invalid_size_per_time(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a") as invalid:
        parse_size_rate(text)
    assert invalid.value.hint == "write an amount per min, hour, day, such as `50MiB/day`"


def test_a_budget_lists_its_limits() -> None:
    budget = Budget(requests=Rate(5, 60), upload=parse_size_rate("50MiB/day"))
    assert str(budget) == "5 requests per min, 50MiB of upload per day"
    assert list(budget.rates()) == [("requests", Rate(5, 60)), ("upload", Rate(52_428_800, 86_400))]
