"""Fixtures of the attack tests. Their types are in tests/lab/attack_stand.py."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from functools import cache

import pytest

from answering import SWITCH, nobody_answers
from attack_stand import Stand, start_stand


@pytest.fixture(scope="session")
def stands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Stand]]:
    """Start the proxies that all attacks of a run share. With `unasked`, no person answers questions."""
    with ExitStack() as stack:

        @cache
        def start(unasked: bool) -> Stand:  # noqa: FBT001 - a key
            with nobody_answers() if unasked else nullcontext():
                return stack.enter_context(start_stand(tmp_path_factory.mktemp("stand")))

        yield start


@pytest.fixture(autouse=True)
def unasked(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether a person answers questions in this run, but must not in this test."""
    if not (SWITCH in os.environ and request.node.get_closest_marker("unasked")):
        yield False
        return
    with nobody_answers():
        yield True


@pytest.fixture
def stand(stands: Callable[[bool], Stand], unasked: bool) -> Stand:  # noqa: FBT001 - a fixture
    """The stand, with empty records."""
    stand = stands(unasked)
    stand.forget()
    return stand
