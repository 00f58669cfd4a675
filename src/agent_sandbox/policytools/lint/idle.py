"""Rules that change nothing: that no request can match, that a deny hides, that another allow takes in."""

from collections.abc import Iterator, Sequence

from agent_sandbox.policy.covers import covers
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.hostpattern import Reach
from agent_sandbox.policy.rule import Conditions, Rule
from agent_sandbox.policytools.lint.finding import Finding
from agent_sandbox.policytools.lint.subject import Subject

# Names that lead nowhere (RFC 6761, 7686). Those that lead to private places are errors already.
NOWHERE = ("onion", "invalid")
# Rules of one host are compared with each other: where there are more, the rest is taken as it is.
MAX_COMPARED = 500


def never_matches(subject: Subject) -> Iterator[Finding]:
    """Find allows that no request can make use of."""
    for line, entry in subject.entries:
        name = entry.host.name
        reserved = next((end for end in NOWHERE if f".{name}".endswith(f".{end}")), "")
        if reserved:
            yield Finding(
                line=line,
                what=f"`{entry.host}` can never be reached: names under `{reserved}` have no address",
                why="the entry says that something is allowed, and it is not",
                mend="take it out",
            )
    for rule in subject.allows:
        for ceiling in subject.policy.rules.ceilings:
            if rule not in ceiling.rules and all(_apart(rule.conditions, other.conditions) for other in ceiling.rules):
                yield Finding(
                    line=rule.origin.line,
                    what=f"`{rule}` can never be used: layer {ceiling.origin.layer} allows none of it",
                    why="the entry says that something is allowed, and it is not",
                    mend=f"take it out, or have it allowed at {ceiling.origin}, too",
                )


def _apart(one: Conditions, other: Conditions) -> bool:
    """Tell whether no request can match both, where hosts, ports, schemes or methods show it."""
    sets = ((one.ports, other.ports), (one.schemes, other.schemes), (one.methods, other.methods))
    return _hosts_apart(one, other) or any(
        mine is not None and theirs is not None and not mine & theirs for mine, theirs in sets
    )


def _hosts_apart(one: Conditions, other: Conditions) -> bool:
    names = (one.host.name, other.host.name)
    if one.host.reach is Reach.EXACT or other.host.reach is Reach.EXACT:
        exact, pattern = (one, other) if one.host.reach is Reach.EXACT else (other, one)
        return not pattern.host.matches(exact.host.name)
    return not any(f".{mine}".endswith(f".{theirs}") for mine, theirs in (names, names[::-1]))


def hidden_by_deny(subject: Subject) -> Iterator[Finding]:
    """Find allows of which a deny takes back all."""
    for rule in subject.allows:
        deny = next(
            (deny for deny in _beside(subject, rule, Effect.DENY) if covers(deny.conditions, rule.conditions)), None
        )
        if deny:
            yield Finding(
                line=rule.origin.line,
                what=f"`{rule}` is never allowed: the deny at {deny.origin} takes in all of it",
                why="one of the two lines is not what its author meant",
                mend="take one of them out, or narrow the deny",
            )


def covered(subject: Subject) -> Iterator[Finding]:
    """Find allows that another allow takes in."""
    for rule in subject.allows:
        wider = next((other for other in _beside(subject, rule, Effect.ALLOW) if _makes_idle(other, rule)), None)
        if wider:
            yield Finding(
                line=rule.origin.line,
                what=f"`{rule}` adds nothing: {wider.origin} allows all of it (`{wider}`)",
                why="whoever narrows this line later narrows nothing",
                mend="take it out, or narrow the other",
            )


def _makes_idle(other: Rule, rule: Rule) -> bool:
    """Tell whether `other` takes in the rule; of two that say the same, the first one stands."""
    if other is rule or not covers(other.conditions, rule.conditions):
        return False
    return not covers(rule.conditions, other.conditions) or _place(other) < _place(rule)


def _place(rule: Rule) -> tuple[int, int, str]:
    return int(rule.origin.layer == "project"), rule.origin.line, rule.origin.file


def _beside(subject: Subject, rule: Rule, effect: Effect) -> Sequence[Rule]:
    """Return the rules that may take in this one: those of its host, and of the wildcards above it."""
    host = rule.conditions.host
    found = subject.policy.index.rules_for(host.name if host.reach is Reach.EXACT else f"*.{host.name}")
    return [other for other in found if other.effect is effect][:MAX_COMPARED]
