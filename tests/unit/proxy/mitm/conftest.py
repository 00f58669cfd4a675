"""A stage for clients that get HTTP/2."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from agent_sandbox.proxy.tls.contexts import HTTP1
from http2_stage import Http2Stage, chosen
from policy_texts import PolicyOf

type Stage = Callable[..., Http2Stage]


@pytest.fixture
def stage(policy: PolicyOf) -> Stage:
    """Make a stage under a policy that allows a.test."""
    return partial(Http2Stage, policy("domains: [a.test]"))


@pytest.fixture
def http1() -> Iterator[None]:
    """Each server chooses HTTP/1.1."""
    with chosen(HTTP1):
        yield
