"""Fixtures for the tests of several proxy modules."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agent_sandbox.policy import Policy
from agent_sandbox.policyfile import load_policy
from lane_stage import LaneStage
from memory_streams import close_all
from policy_texts import PolicyOf


@pytest.fixture(autouse=True)
def closed_streams() -> Iterator[None]:
    """Leave no stream in memory open."""
    yield
    close_all()


@pytest.fixture
def policy(tmp_path: Path) -> PolicyOf:
    """Compile the text of a policy file."""

    def compiled(text: str) -> Policy:
        path = tmp_path / "policy.yaml"
        path.write_text(f"version: 1\n{text}\n")
        return load_policy(path)

    return compiled


@pytest.fixture
def stage(policy: PolicyOf) -> Callable[..., LaneStage]:
    """Make a stage under a policy that allows a.test."""
    return partial(LaneStage, policy("domains: [a.test]"))
