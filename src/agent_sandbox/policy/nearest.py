"""Denials for want of a rule: they name the nearest one and what differed."""

from collections.abc import Sequence
from itertools import islice

from agent_sandbox.policy.ceiling import Ceiling
from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.hostpattern import Reach
from agent_sandbox.policy.index import HostIndex
from agent_sandbox.policy.request import Request
from agent_sandbox.policy.rule import Readings, Rule

# A denial is no occasion for more work than an allow: the most specific ones are near enough.
MAX_COMPARED = 1000


def no_rule_for_request(request: Request, readings: Readings, rules: Sequence[Rule]) -> Decision | None:
    """Deny what no rule of the host takes; None when the host has no rule at all."""
    allows = (rule for rule in rules if rule.effect is Effect.ALLOW)
    misses = [(list(rule.differences(request, readings)), rule) for rule in islice(allows, MAX_COMPARED)]
    if not misses:
        return None
    # The fewest differences; among equals the most specific, which comes first.
    differences, rule = min(misses, key=lambda miss: len(miss[0]))
    cause = Cause.OPERATION if differences and differences[0].startswith("graphql ") else Cause.REQUEST
    return _denial(cause, f"host {request.host} is allowed, {_are_not(differences)}", rule)


def no_rule_for_port(host: str, port: int, rules: Sequence[Rule]) -> Decision | None:
    """Deny what the host's rules allow on other ports alone; None when the host has no rule at all."""
    allows = [rule for rule in rules if rule.effect is Effect.ALLOW]
    return _denial(Cause.REQUEST, f"host {host} is allowed, port {port} is not", allows[0]) if allows else None


def no_rule_for_host(index: HostIndex, host: str) -> Decision:
    """Deny a host that no rule names; one for its parent or for its children is worth telling."""
    reason = f"no rule allows host {host}"
    for rule in (*index.below.get(host, ()), *_rules_above(index, host)):
        if rule.effect is Effect.ALLOW:
            return _denial(Cause.HOST, reason, rule)
    return Decision(effect=Effect.DENY, rule=None, origin=None, reason=reason, cause=Cause.HOST)


def beyond_for_request(ceiling: Ceiling, request: Request, readings: Readings) -> Decision:
    """Deny what some layer allows and a narrowing one does not: that one is named, with its nearest rule."""
    rules = ceiling.index.rules_for(request.host)
    return _beyond(
        ceiling, no_rule_for_request(request, readings, rules) or no_rule_for_host(ceiling.index, request.host)
    )


def beyond_for_port(ceiling: Ceiling, host: str, port: int) -> Decision:
    """Deny a CONNECT that some layer allows and a narrowing one does not."""
    rules = ceiling.index.rules_for(host)
    return _beyond(ceiling, no_rule_for_port(host, port, rules) or no_rule_for_host(ceiling.index, host))


def _beyond(ceiling: Ceiling, within: Decision) -> Decision:
    where = f"layer {ceiling.origin.layer} ({ceiling.origin}) narrows what all others allow"
    return Decision(
        effect=Effect.DENY,
        rule=str(ceiling.origin),
        origin=ceiling.origin,
        reason=f"{where}: {within.reason}",
        near_miss=within.near_miss,
        cause=Cause.CEILING,
    )


def _rules_above(index: HostIndex, host: str) -> list[Rule]:
    _, _, parent = host.partition(".")
    found: list[Rule] = []
    while parent:
        found += (rule for rule in index.exact.get(parent, ()) if rule.conditions.host.reach is Reach.EXACT)
        _, _, parent = parent.partition(".")
    return found


def _denial(cause: Cause, reason: str, nearest: Rule) -> Decision:
    told = f"{nearest.origin} allows {nearest}"
    return Decision(effect=Effect.DENY, rule=None, origin=None, reason=f"{reason}: {told}", near_miss=told, cause=cause)


def _are_not(differences: Sequence[str]) -> str:
    return f"{' and '.join(differences)} {'is' if len(differences) == 1 else 'are'} not"
