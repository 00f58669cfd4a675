"""Rules as plain data, for digests and JSON output."""

from collections.abc import Iterable
from typing import Any

from agent_sandbox.policy.engine.rule import Conditions, Rule


def dump_conditions(asked: Conditions) -> dict[str, Any]:
    """Return the conditions in canonical form, without those that are not set."""
    data = {
        "host": str(asked.host),
        "ports": _sorted(asked.ports),
        "schemes": _sorted(asked.schemes),
        "methods": _sorted(asked.methods),
        "path": asked.path and {str(asked.path.kind): asked.path.text},
        "any_case": asked.path and asked.path.any_case and asked.path.text[slice(*asked.path.any_case)],
        "query": asked.query and list(map(list, asked.query.parameters)),
        "headers": asked.headers and dict(asked.headers.named),
        "max_body": asked.max_body,
        "graphql": asked.graphql and asked.graphql.written,
        "mcp": asked.mcp and asked.mcp.written,
        "transform": asked.inject and asked.inject.written,
        "encoded_slash": asked.encoded_slash or None,
        "inspect": asked.inspect,
        "budget": asked.budget and {name: list(rate) for name, rate in asked.budget.rates()},
        "ask": asked.ask or None,
    }
    return {key: value for key, value in data.items() if value is not None}


def dump_rule(rule: Rule) -> dict[str, Any]:
    """Return a rule with its effect, origin and reason."""
    origin = {"file": rule.origin.file, "line": rule.origin.line, "layer": rule.origin.layer}
    return {"effect": str(rule.effect), **dump_conditions(rule.conditions), "origin": origin, "reason": rule.reason}


def _sorted(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else sorted(values)
