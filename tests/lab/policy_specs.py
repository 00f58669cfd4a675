"""Read a policy file `p` as its models, or its problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent_sandbox.policyfile import parse_layer
from agent_sandbox.problems import UserError

if TYPE_CHECKING:
    from agent_sandbox.policy.file.spec import PolicySpec


def read(text: str) -> PolicySpec:
    """Return the models of a policy."""
    return parse_layer(text, name="project", file="p", shown="p", services=()).spec


def problems(text: str) -> list[str]:
    """Return the problems of a policy."""
    with pytest.raises(UserError) as raised:
        read(text)
    return [str(problem) for problem in raised.value.problems]


def rule(text: str, section: str = "domains") -> str:
    """Return a policy with one rule of one host."""
    return f"{section}: [{{host: a.test, rules: [{{{text}}}]}}]"
