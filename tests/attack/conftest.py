"""Fixtures of the attacks; what they hand out is in tests/lab/attack_stand.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from answering import SWITCH, nobody_answers
from attack_stand import Stand, start_stand

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def whole_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One proxy for all attacks of a run: it has to take them all."""
    with start_stand(tmp_path_factory.mktemp("stand")) as stand:
        yield stand


@pytest.fixture(scope="session")
def unasked_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Another, where nobody is asked."""
    with nobody_answers(), start_stand(tmp_path_factory.mktemp("unasked")) as stand:
        yield stand


@pytest.fixture(autouse=True)
def unasked(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether a person answers in runs of the attacks, and the test is about what happens when nobody is asked."""
    if not (SWITCH in os.environ and request.node.get_closest_marker("unasked")):
        yield False
        return
    with nobody_answers():
        yield True


@pytest.fixture
def stand(request: pytest.FixtureRequest, unasked: bool) -> Stand:  # noqa: FBT001 - a fixture
    """The stand, with nothing on its records."""
    stand: Stand = request.getfixturevalue("unasked_stand" if unasked else "whole_stand")
    stand.forget()
    return stand
