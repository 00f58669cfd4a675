"""The policy engine: pure functions that decide on requests. `parse_request` makes a request, `decide` decides it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_sandbox.policy.compiler.compile import compile_policy
    from agent_sandbox.policy.compiler.layer import Layer
    from agent_sandbox.policy.decision import Cause, Decision, Effect, Origin
    from agent_sandbox.policy.engine.decide import allows, awaits_operation, decide, decide_connect, decide_with_secrets
    from agent_sandbox.policy.engine.policy import Policy
    from agent_sandbox.policy.errors import Ambiguous
    from agent_sandbox.policy.explain.advice import advise
    from agent_sandbox.policy.file.spec import PolicySpec
    from agent_sandbox.policy.http.authority import parse_authority
    from agent_sandbox.policy.http.body import with_body
    from agent_sandbox.policy.http.graphql_operation import Operation
    from agent_sandbox.policy.http.host import canonical_host
    from agent_sandbox.policy.http.request import Request, parse_request

__all__ = [
    "Ambiguous",
    "Cause",
    "Decision",
    "Effect",
    "Layer",
    "Operation",
    "Origin",
    "Policy",
    "PolicySpec",
    "Request",
    "advise",
    "allows",
    "awaits_operation",
    "canonical_host",
    "compile_policy",
    "decide",
    "decide_connect",
    "decide_with_secrets",
    "parse_authority",
    "parse_request",
    "with_body",
]

# Imported on first use: `init` needs one constant below this package, and pydantic takes ten times as long to import as
# Python takes to start.
MODULES = {
    "Ambiguous": "errors",
    "Cause": "decision",
    "Decision": "decision",
    "Effect": "decision",
    "Layer": "compiler.layer",
    "Operation": "http.graphql_operation",
    "Origin": "decision",
    "Policy": "engine.policy",
    "PolicySpec": "file.spec",
    "Request": "http.request",
    "advise": "explain.advice",
    "allows": "engine.decide",
    "awaits_operation": "engine.decide",
    "canonical_host": "http.host",
    "compile_policy": "compiler.compile",
    "decide": "engine.decide",
    "decide_connect": "engine.decide",
    "decide_with_secrets": "engine.decide",
    "parse_authority": "http.authority",
    "parse_request": "http.request",
    "with_body": "http.body",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a name of the table
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
    return found
