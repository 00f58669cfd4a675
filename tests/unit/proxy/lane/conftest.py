"""A stage for each test of the lane."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from lane_stage import LaneStage

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_sandbox.policy import Policy

    type Stage = Callable[..., LaneStage]


@pytest.fixture
def stage(policy: Callable[[str], Policy]) -> Stage:
    """Make a stage under a policy that allows a.test."""
    return partial(LaneStage, policy("domains: [a.test]"))
