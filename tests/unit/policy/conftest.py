"""Fixtures that make policies and requests from text."""

from urllib.parse import urlsplit

import pytest

from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, parse_request
from policy_texts import RequestOf, layer_of, policy_of

__all__ = ["layer_of", "policy_of"]  # fixtures


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
