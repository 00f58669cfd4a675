"""Rules beside each other: which may speak of the same requests, and which cannot."""

from collections.abc import Sequence

from agent_sandbox.policy.hostpattern import NAMED_WHOLE, HostPattern, Reach
from agent_sandbox.policy.index import HostIndex
from agent_sandbox.policy.rule import Conditions, Rule


def beside(index: HostIndex, host: HostPattern) -> Sequence[Rule]:
    """Return the rules that may take in one of this host: those of it, of wildcards above it and of its networks."""
    if host.reach in NAMED_WHOLE:
        return [rule for rules in index.others for rule in rules]
    return index.rules_for(host.name if host.reach is Reach.EXACT else f"*.{host.name}".removesuffix("."))


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
