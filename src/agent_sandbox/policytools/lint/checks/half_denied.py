"""Find denies that name one scheme while an allow lets the same requests through over the other."""

import dataclasses
from collections.abc import Iterator

from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policytools.compare.rule_cover import Wider
from agent_sandbox.policytools.compare.rule_overlap import Meeting
from agent_sandbox.policytools.lint.subject import Finding, Subject

OTHER = {"https": "http", "http": "https"}


def half_denied(subject: Subject) -> Iterator[Finding]:
    """Find denies whose requests are allowed over the other scheme."""
    rules, index = subject.policy.rules.rules, subject.policy.index
    allows, denies = Meeting(index, rules, Effect.ALLOW), Wider(index, Effect.DENY)
    for deny in rules:
        if deny.effect is not Effect.DENY or deny.origin.layer != subject.layer.name:
            continue
        left = _over_the_other_scheme(deny.conditions)
        if left is None or any(denies.covering(left)):
            continue
        allow = next((rule for rule in allows.of(left) if _opens(rule, left)), None)
        if allow:
            other = dataclasses.replace(deny, conditions=left)
            yield Finding(
                line=deny.origin.line,
                what=f"`{deny}` is denied, and `{other}` is allowed by {allow.origin}",
                why="a deny that names one scheme does not apply to the other",
                fix="deny it for both: an entry with `host` and `rules`, without `schemes`",
            )


def _over_the_other_scheme(asked: Conditions) -> Conditions | None:
    """Return the requests that a deny of one scheme leaves out, or None for a deny of both."""
    if asked.schemes is None or len(asked.schemes) > 1:
        return None
    scheme = OTHER[min(asked.schemes)]
    ports, methods = asked.ports or frozenset({DEFAULT_PORTS[scheme]}), asked.methods or STANDARD
    return replace(asked, schemes=frozenset({scheme}), ports=ports, methods=methods)


def _opens(allow: Rule, left: Conditions) -> bool:
    """Return whether the allow, which shares a port, certainly allows some of it: one covers the other."""
    return covers(allow.conditions, left) or covers(left, replace(allow.conditions, ports=left.ports))
