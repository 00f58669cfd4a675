"""Find secrets that a policy would inject for many hosts, or that requests can do without."""

from collections.abc import Iterator

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.match.host_pattern import Reach
from agent_sandbox.policytools.compare.rule_cover import Wider
from agent_sandbox.policytools.lint.subject import Finding, Subject


def wide_secret(subject: Subject) -> Iterator[Finding]:
    """Find secrets that would be sent to every host of a wildcard."""
    for line, rule in _with_secrets(subject):
        if rule.conditions.host.reach is not Reach.EXACT:
            yield Finding(
                line=line,
                what=f"{rule.conditions.inject} would be sent to every host of `{rule.conditions.host}`",
                why="anyone who runs or registers one of these hosts would receive it",
                fix="name the hosts that need it",
            )


def optional_secret(subject: Subject) -> Iterator[Finding]:
    """Find secrets without which another allow would let the request through."""
    allows = Wider(subject.policy.index, Effect.ALLOW)
    for line, rule in _with_secrets(subject):
        others = (other for other in allows.covering(rule.conditions) if other.conditions.inject is None)
        if other := next(others, None):
            yield Finding(
                line=line,
                what=f"`{rule}` is also allowed without the secret, by {other.origin} (`{other}`)",
                why="the request is sent unchanged if the client has its own credential or the proxy lacks the secret",
                fix="narrow the other rule unless this is intended",
            )


def _with_secrets(subject: Subject) -> Iterator[tuple[int, Rule]]:
    """Yield the first rule of each line that injects a secret; rules of a service belong to the line that names it."""
    layer = subject.layer
    named = {
        f"service {service.name}": layer.origin("services", number).line
        for number, service in enumerate(layer.spec.services)
    }
    seen = set[int]()
    for rule in subject.policy.rules.rules:
        line = rule.origin.line if rule.origin.layer == layer.name else named.get(rule.origin.layer)
        if rule.conditions.inject is not None and line is not None and line not in seen:
            seen.add(line)
            yield line, rule
