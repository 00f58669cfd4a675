"""Find conditions that match only their own text: percent-encoded queries, which are compared decoded, and routes."""

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote_plus

from agent_sandbox.policy.compiler.layer import Location
from agent_sandbox.policy.file.entry_spec import RuleSpec
from agent_sandbox.policytools.edit.flow_style import flow
from agent_sandbox.policytools.edit.route_template import as_pattern
from agent_sandbox.policytools.lint.subject import Finding, Subject

ENCODED = re.compile(r"%[0-9A-Fa-f]{2}|\+")
SECTIONS = ("domains", "allow", "deny")


def encoded_query(subject: Subject) -> Iterator[Finding]:
    """Find query conditions that a request with the same text does not match."""
    for location, rule in _rules(subject):
        # The query in a line of `allow` is part of a URL, and has been decoded.
        if rule.query is None or (*location, "query") not in subject.layer.lines:
            continue
        for name, values in rule.query.exact.items():
            for value in values:
                if ENCODED.search(name) or ENCODED.search(value):
                    line = subject.layer.origin(*location, "query", "exact", name).line
                    yield _finding(line, name, value)


def _rules(subject: Subject) -> Iterator[tuple[Location, RuleSpec]]:
    spec = subject.layer.spec
    for section in SECTIONS:
        for number, entry in enumerate(getattr(spec, section)):
            for place, rule in enumerate(entry.rules):
                yield (section, number, "rules", place), rule
    for name, service in spec.host_services.items():
        yield ("host_services", name), service


def _finding(line: int, name: str, value: str) -> Finding:
    decoded = {unquote_plus(name): unquote_plus(value)}
    sent = f"{quote(name, safe='')}={quote(value, safe='')}"
    return Finding(
        line=line,
        what=f"`{flow({name: value})[1:-1]}` matches only `{sent}`, not `{name}={value}`",
        why="names and values of a query are compared in decoded form",
        fix=f"write `{flow(decoded)[1:-1]}`",
    )


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
