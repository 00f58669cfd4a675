"""Find services that can write to any repository, and services without effect."""

from collections.abc import Iterator

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.compare.rule_cover import Wider
from agent_sandbox.policytools.lint.subject import Finding, Subject

WRITING = {"access": "readwrite"}


def any_repository(subject: Subject) -> Iterator[Finding]:
    """Find services that can write to repositories without naming any."""
    for number, service in enumerate(subject.layer.spec.services):
        options = service.model_extra or {}
        parts = [name for name, value in options.items() if value == WRITING]
        if parts and not options.get("repos") and not service.readonly:
            yield Finding(
                line=subject.layer.origin("services", number).line,
                what=f"service `{service.name}` can write to any repository ({', '.join(parts)})",
                why="the agent could put any data into a stranger's repository, or publish it there",
                fix="name the repositories: `repos: [owner/name]`",
            )


def unused_service(subject: Subject) -> Iterator[Finding]:
    """Find services all of whose rules are denied, or also allowed by other rules."""
    deciding = [Wider(subject.policy.index, effect) for effect in Effect] if subject.layer.spec.services else []
    for number, service in enumerate(subject.layer.spec.services):
        layer = f"service {service.name}"
        allows = (rule for rule in subject.policy.rules.rules if rule.effect is Effect.ALLOW)
        mine = [rule.conditions for rule in allows if rule.origin.layer == layer]
        if mine and all(
            any(other.origin.layer != layer for wider in deciding for other in wider.covering(asked)) for asked in mine
        ):
            yield Finding(
                line=subject.layer.origin("services", number).line,
                what=f"service `{service.name}` adds nothing: other rules already deny or allow all of it",
                why="it looks needed, but has no effect",
                fix="remove it, or the other rules",
            )
