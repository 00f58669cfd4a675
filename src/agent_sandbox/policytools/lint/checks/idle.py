"""Find rules without effect: that no request can match, a deny hides or another allow covers; and half denies."""

import dataclasses
import re
from collections.abc import Iterator

from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.addresses import why_forbidden
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policytools.compare.rule_cover import Wider
from agent_sandbox.policytools.compare.rule_overlap import Meeting
from agent_sandbox.policytools.lint.subject import Finding, Subject

# Names that never resolve (RFC 6761, 7686). Private names are errors already.
NOWHERE = ("onion", "invalid")
# Public names that resolve to the local machine, and those that resolve to the address in the name.
OWN_MACHINE = ("localtest.me", "lvh.me")
SPELLED = re.compile(r"(?:\A|[.-])([0-9]{1,3}(?:[.-][0-9]{1,3}){3})\.(?:nip|sslip|xip)\.io\Z")
OTHER = {"https": "http", "http": "https"}


def never_matches(subject: Subject) -> Iterator[Finding]:
    """Find allows that no request can use."""
    for line, entry in subject.entries:
        name = entry.host.name
        reserved = next((end for end in NOWHERE if f".{name}".endswith(f".{end}")), "")
        if reserved:
            yield Finding(
                line=line,
                what=f"`{entry.host}` can never be reached: names under `{reserved}` have no address",
                why="the entry looks as if it allowed something, but it does not",
                fix="remove it",
            )
        elif address := _private_address(name):
            yield Finding(
                line=line,
                what=f"`{entry.host}` can never be reached: it leads to {address}",
                why="the proxy never connects to a private address by a public name",
                fix="name the private host under `host_services`",
            )
    restrictions = [
        (restriction.origin, Meeting(restriction.index, restriction.rules, Effect.ALLOW))
        for restriction in subject.policy.rules.restrictions
    ]
    for rule in subject.allows:
        for origin, within in restrictions:
            if not any(within.of(rule.conditions)):
                yield Finding(
                    line=rule.origin.line,
                    what=f"`{rule}` can never be used: layer {origin.layer} allows none of it",
                    why="the entry looks as if it allowed something, but it does not",
                    fix=f"remove it, or allow it at {origin} as well",
                )


def _private_address(name: str) -> str:
    """Return the private address that a public name is known to resolve to, or an empty string."""
    if any(f".{name}".endswith(f".{end}") for end in OWN_MACHINE):
        return "127.0.0.1"
    spelled = SPELLED.search(name)
    address = spelled[1].replace("-", ".") if spelled else ""
    try:
        return address if address and why_forbidden(address) else ""
    except ValueError:
        return ""


def hidden_by_deny(subject: Subject) -> Iterator[Finding]:
    """Find allows that a deny covers."""
    denies = Wider(subject.policy.index, Effect.DENY)
    for rule in subject.allows:
        deny = next(denies.covering(rule.conditions), None)
        if deny:
            yield Finding(
                line=rule.origin.line,
                what=f"`{rule}` is never allowed: the deny at {deny.origin} covers it",
                why="one of the two lines is probably a mistake",
                fix="remove one of them, or narrow the deny",
            )


def covered(subject: Subject) -> Iterator[Finding]:
    """Find allows that another allow covers."""
    allows = Wider(subject.policy.index, Effect.ALLOW)
    for rule in subject.allows:
        other = next((other for other in allows.covering(rule.conditions) if _makes_idle(other, rule)), None)
        if other:
            yield Finding(
                line=rule.origin.line,
                what=f"`{rule}` adds nothing: {other.origin} allows all of it (`{other}`)",
                why="narrowing this line later would have no effect",
                fix="remove it, or narrow the other one",
            )


def _makes_idle(other: Rule, rule: Rule) -> bool:
    """Return whether `other`, which covers the rule, makes it redundant; of two equal rules, the later one is."""
    if other is rule or other.conditions.inject != rule.conditions.inject:
        return False  # a request with a secret differs from one without
    if rule.conditions.ask and not other.conditions.ask:
        return False  # a person is still asked
    return not covers(rule.conditions, other.conditions) or _place(other) < _place(rule)


def _place(rule: Rule) -> tuple[int, int, str]:
    return int(rule.origin.layer == "project"), rule.origin.line, rule.origin.file


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
