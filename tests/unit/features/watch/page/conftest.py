from collections.abc import Iterator

import pytest

from page_stand import PageStand
from watching import Answers


@pytest.fixture(scope="package")
def served() -> Iterator[PageStand]:
    """One server for all tests of the page: it starts in 50 ms."""
    with PageStand(Answers()) as stand:
        yield stand
