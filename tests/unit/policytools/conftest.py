"""Fixtures that make policies and requests from text."""

import pytest

from agent_sandbox.policy import Request
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request
from policy_texts import PolicyOf, RequestOf, layer_of, policy_of

__all__ = ["layer_of", "policy_of"]  # fixtures
SLASHES = "domains: [{host: slash.test, encoded_slash: true}]"


@pytest.fixture
def request_of(policy_of: PolicyOf) -> RequestOf:
    """Return a reader of `METHOD URL`; slash.test accepts encoded slashes."""

    def request(line: str) -> Request:
        method, _, url = line.partition(" ")
        return read_request(policy_of(SLASHES), RequestLine(method=method, url=url))

    return request
