"""Compile layers and services into one effective policy, and report every problem at once."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add

from agent_sandbox.policy.compiler.conflicts import conflicting, shared_variables
from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.problems import Problem, UserError


def compile_policy(layers: Sequence[Layer], services: Mapping[str, Layer]) -> Policy:
    """Return the policy of all layers, lowest first, or raise UserError with every problem."""
    problems = [problem for layer in layers for problem in _unknown_services(layer, services)]
    if problems:
        raise UserError(problems)
    rules = reduce(add, (expand(layer, services) for layer in layers), RuleSet())
    if problems := [*conflicting(rules.rules), *shared_variables(rules.rules)]:
        raise UserError(problems)
    if any(rule.effect is Effect.ALLOW for rule in rules.rules):
        return Policy.of(rules)
    files = ", ".join(layer.file for layer in layers)
    return Policy.of(rules, refusal=f"{files or 'the policy'} allows nothing yet", empty=True)


def offered(services: Mapping[str, Layer]) -> dict[str, Policy]:
    """Return a policy for each service that allows what the service allows without options."""
    return {name: compile_policy([services[name]], services) for name in services}


def _unknown_services(layer: Layer, services: Mapping[str, Layer]) -> Iterator[Problem]:
    for number, service in enumerate(layer.spec.services):
        if service.name not in services:
            where, what = str(layer.origin("services", number)), f"unknown service {safe_repr(service.name)}"
            yield Problem(where=where, what=what, hint=f"known: {', '.join(sorted(services))}")
