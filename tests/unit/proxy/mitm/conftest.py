"""A stage for clients that get HTTP/2."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from agent_sandbox.proxy.tls.contexts import HTTP1
from http2_stage import Http2Stage, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_sandbox.policy import Policy

    type Stage = Callable[..., Http2Stage]


@pytest.fixture
def stage(policy: Callable[[str], Policy]) -> Stage:
    """Make a stage under a policy that allows a.test."""
    return partial(Http2Stage, policy("domains: [a.test]"))


@pytest.fixture
def http1() -> Iterator[None]:
    """Each server chooses HTTP/1.1."""
    with chosen(HTTP1):
        yield
