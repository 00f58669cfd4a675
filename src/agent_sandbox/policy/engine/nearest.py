"""Denials without a matching rule: they name the nearest rule and what differs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.engine.covers import covers
from agent_sandbox.policy.engine.index import HostIndex
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.engine.rule import Readings, Rule
from agent_sandbox.policy.http.graphql_operation import ANY_OPERATION
from agent_sandbox.policy.http.mcp_message import ANY_MESSAGE
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_pattern import Reach

# A bound, so that a denial costs little more than an allow: rules for such a path come first, then the most specific.
MAX_COMPARED = 100
# Pairs of an allow and a deny that are compared.
MAX_PAIRS = 500


def no_rule_for_request(request: Request, readings: Readings, index: HostIndex) -> Decision | None:
    """Return the denial of a request that no rule of its host matches; None if the host has no allow."""
    rules = likely = index.rules_for(request.host)
    if len(rules) > MAX_COMPARED:
        likely = (*index.rules_about(request.host, readings), *rules)
    allows = islice((rule for rule in likely if rule.effect is Effect.ALLOW), MAX_COMPARED)
    # The fewest differences; among equals the most specific, which comes first.
    nearest = sorted(allows, key=lambda rule: sum(1 for _ in rule.differences(request, readings)))
    rule = next(unshadowed(nearest, rules), None)
    if rule is None:
        return None
    differences = list(rule.differences(request, readings))
    all_but_the_body = rule.matches(replace(request, operation=ANY_OPERATION, message=ANY_MESSAGE), readings)
    cause = Cause.OPERATION if all_but_the_body else Cause.REQUEST
    denial = _denial(cause, f"host {request.host} is allowed, {_are_not(differences)}", rule, _shown(rule, request))
    inject = rule.conditions.inject
    return replace(denial, wants=f"{inject.secrets} ({rule.origin})") if inject else denial


def no_rule_for_port(host: str, port: int, rules: Sequence[Rule]) -> Decision | None:
    """Return the denial of a port if the host is allowed on other ports; None if the host has no allow."""
    allow = next(unshadowed((rule for rule in rules if rule.effect is Effect.ALLOW), rules), None)
    return _denial(Cause.REQUEST, f"host {host} is allowed, port {port} is not", allow) if allow else None


def no_rule_for_host(index: HostIndex, host: str) -> Decision:
    """Return the denial of a host that no rule names. It mentions a rule for a parent or child domain."""
    reason = f"no rule allows host {host}"
    rule = next(allows_nearby(index, host), None)
    if rule:
        return _denial(Cause.HOST, reason, rule)
    return Decision(effect=Effect.DENY, rule=None, origin=None, reason=reason, cause=Cause.HOST)


def allows_nearby(index: HostIndex, host: str) -> Iterator[Rule]:
    """Yield the allows for the names below a host, then for the names above it."""
    if below := [rule for rule in index.below.get(host, ()) if rule.effect is Effect.ALLOW]:
        # A deny that hides them all matches `*.host`.
        yield from unshadowed(below, index.rules_for(f"*.{host}"))
    _, _, parent = host.partition(".")
    while parent:
        above = (rule for rule in index.naming(parent) if rule.conditions.host.reach is Reach.EXACT)
        if allows := [rule for rule in above if rule.effect is Effect.ALLOW]:
            yield from unshadowed(allows, index.rules_for(parent))
        _, _, parent = parent.partition(".")


def unshadowed(allows: Iterable[Rule], here: Iterable[Rule]) -> Iterator[Rule]:
    """Yield the allows that no deny covers; after `MAX_PAIRS` comparisons yield the rest unchecked."""
    denials = (rule.conditions for rule in here if rule.effect is Effect.DENY)
    denies = list(islice(denials, MAX_PAIRS))
    compared = 0
    for rule in allows:
        compared += len(denies)
        if compared > MAX_PAIRS or not any(covers(deny, rule.conditions) for deny in denies):
            yield rule


def beyond_for_request(restriction: Restriction, request: Request, readings: Readings) -> Decision:
    """Return the denial of a request that only a restricting layer does not allow, with that layer's nearest rule."""
    index = restriction.index
    return _beyond(restriction, no_rule_for_request(request, readings, index) or no_rule_for_host(index, request.host))


def beyond_for_port(restriction: Restriction, host: str, port: int) -> Decision:
    """Return the denial of a CONNECT that only a restricting layer does not allow."""
    rules = restriction.index.rules_for(host)
    return _beyond(restriction, no_rule_for_port(host, port, rules) or no_rule_for_host(restriction.index, host))


def _beyond(restriction: Restriction, within: Decision) -> Decision:
    where = f"layer {restriction.origin.layer} ({restriction.origin}) restricts what all others allow"
    return Decision(
        effect=Effect.DENY,
        rule=str(restriction.origin),
        origin=restriction.origin,
        reason=f"{where}: {within.reason}",
        near_miss=within.near_miss,
        cause=Cause.CEILING,
    )


def _shown(rule: Rule, request: Request) -> str:
    """Return the rule as text. For a method such as PROPFIND, "any method" would be wrong."""
    if rule.conditions.methods != STANDARD or request.method in STANDARD:
        return str(rule)
    return f"any standard method{str(rule).removeprefix('any method')}"


def _denial(cause: Cause, reason: str, nearest: Rule, shown: str = "") -> Decision:
    near = f"{nearest.origin} allows {shown or nearest}"
    return Decision(effect=Effect.DENY, rule=None, origin=None, reason=f"{reason}: {near}", near_miss=near, cause=cause)


def _are_not(differences: Sequence[str]) -> str:
    return f"{' and '.join(differences)} {'is' if len(differences) == 1 else 'are'} not"
