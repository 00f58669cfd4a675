"""Services that are named and add nothing."""

from collections.abc import Iterator

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.compare.rule_cover import Wider
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
                what=f"service `{service.name}` adds nothing: other rules deny or allow all that it allows",
                why="it looks as if it were needed, and as if it were in force",
                mend="take it out, or the rules that stand beside it",
            )
