"""Find paths that are written as the routes of a web framework, whose variables are only text here."""

from collections.abc import Iterator

from agent_sandbox.policytools.edit.route_template import as_pattern
from agent_sandbox.policytools.lint.subject import Finding, Subject


def route_template(subject: Subject) -> Iterator[Finding]:
    """Find paths with a variable, such as `/users/{id}`."""
    for rule in subject.policy.rules.rules:
        path = rule.conditions.path
        if path and rule.origin.layer == subject.layer.name and (pattern := as_pattern(path.text)) != path.text:
            yield Finding(
                line=rule.origin.line,
                what=f"`{path.text}` matches only this text",
                why="only `*` (part of one segment) and `**` (any number of segments) stand for other text",
                fix=f"write `{pattern}`; in an entry with `rules`, `path: {{glob: {pattern}}}`",
            )
