"""Secrets that a policy has put in where they would reach more than one host, or none at all."""

from collections.abc import Iterator

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policytools.compare.rule_cover import Wider
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


def optional_secret(subject: Subject) -> Iterator[Finding]:
    """Find secrets that a request need not have: another allow lets it go as it is."""
    allows = Wider(subject.policy.index, Effect.ALLOW)
    for line, rule in _with_secrets(subject):
        others = (other for other in allows.covering(rule.conditions) if other.conditions.inject is None)
        if other := next(others, None):
            yield Finding(
                line=line,
                what=f"`{rule}` goes without it, too: {other.origin} allows all of it (`{other}`)",
                why="with a credential of the agent's own, or where the proxy has no such secret, it goes as it is",
                mend="narrow the other, if that is not meant",
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
