"""Services that are named and add nothing."""

from collections.abc import Iterator

from agent_sandbox.policy.covers import covers
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.rule import Rule
from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.subject import Subject

WRITING = {"access": "readwrite"}


def any_repository(subject: Subject) -> Iterator[Finding]:
    """Find a service that may write to repositories and names none."""
    for number, service in enumerate(subject.layer.spec.services):
        options = service.model_extra or {}
        parts = [name for name, value in options.items() if value == WRITING]
        if parts and not options.get("repos") and not service.readonly:
            yield Finding(
                line=subject.layer.origin("services", number).line,
                what=f"service `{service.name}` writes to any repository ({', '.join(parts)})",
                why="whatever the agent holds can be put into a stranger's repository, or be said there in public",
                mend="name the repositories: `repos: [owner/name]`",
            )


def unused_service(subject: Subject) -> Iterator[Finding]:
    """Find a service of which every rule is denied, or allowed by others too."""
    rules = subject.policy.rules.rules
    for number, service in enumerate(subject.layer.spec.services):
        mine = [
            rule for rule in rules if rule.origin.layer == f"service {service.name}" and rule.effect is Effect.ALLOW
        ]
        others = [rule for rule in rules if rule.origin.layer != f"service {service.name}"]
        if mine and all(_is_decided(rule, others) for rule in mine):
            yield Finding(
                line=subject.layer.origin("services", number).line,
                what=f"service `{service.name}` adds nothing: other rules deny or allow all that it allows",
                why="it looks as if it were needed, and as if it were in force",
                mend="take it out, or the rules that stand beside it",
            )


def _is_decided(rule: Rule, others: list[Rule]) -> bool:
    return any(covers(other.conditions, rule.conditions) for other in others)
