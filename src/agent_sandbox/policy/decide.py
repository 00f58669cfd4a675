"""THE decision: total, without side effects, and it never depends on order."""

from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.nearest import (
    beyond_for_port,
    beyond_for_request,
    no_rule_for_host,
    no_rule_for_port,
    no_rule_for_request,
)
from agent_sandbox.policy.path import readings
from agent_sandbox.policy.request import Request


def decide(policy: Policy, request: Request) -> Decision:
    """Answer a request: a matching deny wins, else a matching allow within every ceiling, else it is denied."""
    if policy.refusal:
        return _refused(policy)
    rules = policy.index.rules_for(request.host)
    ways = readings(request.path)
    allowing = None
    for rule in rules:
        if not rule.matches(request, ways):
            continue
        if rule.effect is Effect.DENY:
            return rule.verdict
        allowing = allowing or rule
    if not allowing:
        return no_rule_for_request(request, ways, rules) or no_rule_for_host(policy.index, request.host)
    for ceiling in policy.rules.ceilings:
        if not ceiling.takes(request, ways):
            return beyond_for_request(ceiling, request, ways)
    return allowing.verdict


def decide_connect(policy: Policy, *, host: str, port: int) -> Decision:
    """Answer a CONNECT: allowed when some rule could allow a request there; that request is decided again in full."""
    if policy.refusal:
        return _refused(policy)
    rules = policy.index.rules_for(host)
    there = [rule for rule in rules if rule.conditions.ports is None or port in rule.conditions.ports]
    for rule in there:
        if rule.effect is Effect.DENY and rule.conditions.of_the_host_alone:
            return rule.verdict
    allowing = next((rule for rule in there if rule.effect is Effect.ALLOW), None)
    if not allowing:
        return no_rule_for_port(host, port, rules) or no_rule_for_host(policy.index, host)
    for ceiling in policy.rules.ceilings:
        if not ceiling.takes_connect(host, port):
            return beyond_for_port(ceiling, host, port)
    return allowing.verdict


def _refused(policy: Policy) -> Decision:
    return Decision(effect=Effect.DENY, rule=None, origin=None, reason=policy.refusal, cause=Cause.POLICY)
