"""Fixtures that build policies and requests from text."""

from collections.abc import Callable
from textwrap import dedent
from urllib.parse import urlsplit

import pytest

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, parse_request
from agent_sandbox.policyfile import parse_layer

type LayerOf = Callable[..., Layer]
type PolicyOf = Callable[[str], Policy]
type RequestOf = Callable[[str], Request]


@pytest.fixture
def layer_of() -> LayerOf:
    def layer(text: str, name: str = "project", file: str = "policy.yaml") -> Layer:
        return parse_layer(dedent(text), name=name, file=file, shown=file, services=("x",))

    return layer


@pytest.fixture
def policy_of(layer_of: LayerOf) -> PolicyOf:
    return lambda text: compile_policy([layer_of(text)], {})


@pytest.fixture
def request_of() -> RequestOf:
    def request(line: str) -> Request:
        method, _, url = line.partition(" ")
        parts = urlsplit(url)
        return parse_request(
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=parts.port or DEFAULT_PORTS[parts.scheme],
            method=method,
            target=url.partition(parts.netloc)[2],
            encoded_slash=True,
        )

    return request
