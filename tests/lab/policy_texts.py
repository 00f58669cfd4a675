"""Policies, layers and requests from text: the fixtures that make them, and the types of such fixtures."""

from collections.abc import Callable
from textwrap import dedent

import pytest

from agent_sandbox.policy import Layer, Policy, Request, compile_policy
from agent_sandbox.policyfile import parse_layer

type Find = Callable[..., list[tuple[int, str]]]
type LayerOf = Callable[..., Layer]
type PolicyOf = Callable[[str], Policy]
type RequestOf = Callable[[str], Request]


@pytest.fixture
def layer_of() -> LayerOf:
    """Return a reader of layers."""

    def layer(text: str, name: str = "project", file: str = "policy.yaml") -> Layer:
        return parse_layer(dedent(text), name=name, file=file, shown=file, services=("x",))

    return layer


@pytest.fixture
def policy_of(layer_of: LayerOf) -> PolicyOf:
    """Return a compiler of policies of one layer."""
    return lambda text: compile_policy([layer_of(text)], {})
