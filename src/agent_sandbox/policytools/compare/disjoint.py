"""Prove that two rules never match the same request."""

from agent_sandbox.policy.engine.rule import Conditions
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach

type Sets = tuple[frozenset[int] | None, frozenset[str] | None, frozenset[str] | None]


def apart(one: Conditions, other: Conditions) -> bool:
    """Return whether hosts, ports, schemes or methods prove that no request matches both."""
    return hosts_apart(one.host, other.host) or sets_apart(sets_of(one), sets_of(other))


def sets_of(asked: Conditions) -> Sets:
    """Return the ports, schemes and methods of a rule."""
    return asked.ports, asked.schemes, asked.methods


def sets_apart(one: Sets, other: Sets) -> bool:
    """Return whether no request has a port, a scheme and a method of both."""
    return any(
        mine is not None and theirs is not None and mine.isdisjoint(theirs)
        for mine, theirs in zip(one, other, strict=True)
    )


def hosts_apart(one: HostPattern, other: HostPattern) -> bool:
    """Return whether no host matches both."""
    for exact, pattern in ((one, other), (other, one)):
        if exact.reach is Reach.EXACT:
            return not pattern.matches(exact.name)
    if Reach.LISTED in {one.reach, other.reach}:
        return Reach.NETWORK in {one.reach, other.reach}
    if Reach.NETWORK in {one.reach, other.reach}:
        # A name or wildcard never matches an address; two networks are not compared.
        return one.reach is not other.reach
    if Reach.EVERY in {one.reach, other.reach}:
        return False
    return not any(f".{mine.name}".endswith(f".{theirs.name}") for mine, theirs in ((one, other), (other, one)))
