"""The policy engine: pure, total, explains itself. `decide` answers, `parse_request` is the only door."""

from agent_sandbox.policy.advice import advise
from agent_sandbox.policy.ambiguity import Ambiguous
from agent_sandbox.policy.authority import parse_authority
from agent_sandbox.policy.compile import compile_policy
from agent_sandbox.policy.decide import decide, decide_connect
from agent_sandbox.policy.decision import Cause, Decision, Effect, Origin
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.host import canonical_host
from agent_sandbox.policy.layer import Layer
from agent_sandbox.policy.request import Request, parse_request
from agent_sandbox.policy.spec import PolicySpec

__all__ = [
    "Ambiguous",
    "Cause",
    "Decision",
    "Effect",
    "Layer",
    "Origin",
    "Policy",
    "PolicySpec",
    "Request",
    "advise",
    "canonical_host",
    "compile_policy",
    "decide",
    "decide_connect",
    "parse_authority",
    "parse_request",
]
