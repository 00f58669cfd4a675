"""Secrets that a policy has put in where they would reach more than one host."""

from collections.abc import Iterator

from agent_sandbox.policy.hostpattern import Reach
from agent_sandbox.policy.rule import Rule
from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.subject import Subject


def wide_secret(subject: Subject) -> Iterator[Finding]:
    """Find secrets that would go to whatever host there is below a name."""
    for line, rule in _with_secrets(subject):
        if rule.conditions.host.reach is not Reach.EXACT:
            yield Finding(
                line=line,
                what=f"{rule.conditions.inject} would go to every host of `{rule.conditions.host}`",
                why="whoever runs one of them, or registers another, is sent it",
                mend="name the hosts that it is for",
            )


def _with_secrets(subject: Subject) -> Iterator[tuple[int, Rule]]:
    """Yield the first rule of each line that puts a secret in; a service's are those of the line that names it."""
    layer = subject.layer
    named = {
        f"service {service.name}": layer.origin("services", number).line
        for number, service in enumerate(layer.spec.services)
    }
    told = set[int]()
    for rule in subject.policy.rules.rules:
        line = rule.origin.line if rule.origin.layer == layer.name else named.get(rule.origin.layer)
        if rule.conditions.inject is not None and line is not None and line not in told:
            told.add(line)
            yield line, rule
