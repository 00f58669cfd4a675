"""Fixtures of the attacks; what they hand out is in tests/lab/attack_stand.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from attack_stand import Stand, start_stand

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def whole_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One proxy for all attacks of a run: it has to take them all."""
    with start_stand(tmp_path_factory.mktemp("stand")) as stand:
        yield stand


@pytest.fixture
def stand(whole_stand: Stand) -> Stand:
    """The stand, with nothing on its records."""
    whole_stand.forget()
    return whole_stand
