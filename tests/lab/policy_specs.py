"""Read a policy file `p` as its models, or its problems."""

import pytest

from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.problems import UserError


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
