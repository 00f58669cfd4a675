"""Rules beside each other: which may speak of the same requests, and which cannot."""

from collections.abc import Iterator, Sequence

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.hostpattern import NAMED_WHOLE, HostPattern, Reach
from agent_sandbox.policy.index import HostIndex
from agent_sandbox.policy.pathpattern import PathKind, PathPattern
from agent_sandbox.policy.rule import Conditions, Rule


def beside(index: HostIndex, asked: Conditions) -> Sequence[Rule]:
    """Return at least the rules that take in all of this: what does takes every host of it, and every path."""
    host = asked.host
    if host.reach in NAMED_WHOLE:
        return [rule for rules in index.others for rule in rules]
    name = host.name if host.reach is Reach.EXACT else f"*.{host.name}".removesuffix(".")
    return index.rules_about(name, (_some_path(asked.path),))


def _some_path(pattern: PathPattern | None) -> str:
    """Return a path of the pattern."""
    if pattern is None:
        return "/"
    return "/".join(map("x".join, pattern.glob)) if pattern.kind is PathKind.GLOB else pattern.reading


def meeting(policy: Policy, asked: Conditions, effect: Effect) -> Iterator[Rule]:
    """Yield the rules of an effect that may speak of some of the same requests."""
    exact = asked.host.reach is Reach.EXACT
    for rule in policy.index.rules_for(asked.host.name) if exact else policy.rules.rules:
        if rule.effect is effect and not apart(rule.conditions, asked):
            yield rule


def apart(one: Conditions, other: Conditions) -> bool:
    """Tell whether no request can match both, where hosts, ports, schemes or methods prove it."""
    sets = ((one.ports, other.ports), (one.schemes, other.schemes), (one.methods, other.methods))
    return hosts_apart(one.host, other.host) or any(
        mine is not None and theirs is not None and not mine & theirs for mine, theirs in sets
    )


def hosts_apart(one: HostPattern, other: HostPattern) -> bool:
    """Tell whether no host can be in both."""
    for exact, pattern in ((one, other), (other, one)):
        if exact.reach is Reach.EXACT:
            return not pattern.matches(exact.name)
    if Reach.LISTED in {one.reach, other.reach}:
        return Reach.NETWORK in {one.reach, other.reach}
    if Reach.NETWORK in {one.reach, other.reach}:
        # A name or a wildcard never means an address; two networks are not compared.
        return one.reach is not other.reach
    if Reach.EVERY in {one.reach, other.reach}:
        return False
    return not any(f".{mine.name}".endswith(f".{theirs.name}") for mine, theirs in ((one, other), (other, one)))
