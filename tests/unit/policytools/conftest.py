"""Fixtures that build policies and requests from text."""

from collections.abc import Callable
from textwrap import dedent

import pytest

from agent_sandbox.policy import Layer, Policy, Request, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request

type LayerOf = Callable[[str], Layer]
type PolicyOf = Callable[[str], Policy]
type RequestOf = Callable[[str], Request]

SLASHES = "domains: [{host: slash.test, encoded_slash: true}]"


@pytest.fixture
def layer_of() -> LayerOf:
    def layer(text: str) -> Layer:
        return parse_layer(dedent(text), name="project", file="policy.yaml", shown="policy.yaml", services=("x",))

    return layer


@pytest.fixture
def policy_of(layer_of: LayerOf) -> PolicyOf:
    return lambda text: compile_policy([layer_of(text)], {})


@pytest.fixture
def request_of(policy_of: PolicyOf) -> RequestOf:
    """Return a reader of `METHOD URL`; slash.test accepts encoded slashes."""

    def request(line: str) -> Request:
        method, _, url = line.partition(" ")
        return read_request(policy_of(SLASHES), RequestLine(method=method, url=url))

    return request
