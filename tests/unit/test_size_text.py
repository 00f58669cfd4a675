import pytest

from agent_sandbox.size_text import size_text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (999_499, "999 kB"), (999_500, "1 MB"), (12_345_678, "12.3 MB"), (10**16, "10000 TB")],
)
def test_a_size_has_three_digits_and_a_unit(number: int, text: str) -> None:
    assert size_text(number) == text
