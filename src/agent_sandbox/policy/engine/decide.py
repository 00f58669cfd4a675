"""Decide requests. Every function is total and pure, and the order of rules never matters."""

from msgspec.structs import replace

from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.engine.grants import Asked, is_for_one_request, unasked_body, why_asked
from agent_sandbox.policy.engine.nearest import (
    beyond_for_port,
    beyond_for_request,
    no_rule_for_host,
    no_rule_for_port,
    no_rule_for_request,
)
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Readings
from agent_sandbox.policy.http.git_requests import STARTS_PUSH, push_after
from agent_sandbox.policy.http.graphql_operation import ANY_OPERATION
from agent_sandbox.policy.http.mcp_message import ANY_MESSAGE
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.injection import Injection

# How the reason begins if the request is denied because of the push that it starts.
NO_PUSH = "this request starts a git push, which is denied"


def decide(policy: Policy, request: Request) -> Decision:
    """Return the decision on a request.

    A matching deny wins. Otherwise a matching allow wins if every restricting layer allows the request as well.
    Otherwise the request is denied. The GET that starts a `git push` is allowed only if the push itself is.
    """
    if policy.refusal and not policy.empty:
        return _refused(policy)
    ways = readings(request.path)
    answer = None
    for rule in policy.index.rules_about(request.host, ways):
        if not rule.matches(request, ways):
            continue
        if rule.effect is Effect.DENY:
            return rule.verdict
        # The first one is the most specific; a later one replaces it only if it allows a larger body.
        if answer is None or rule.verdict.limit > answer.limit:
            answer = rule.verdict
    if answer is None:
        answer = _granted(policy, request, ways)
    if answer is None:
        return _not_allowed(policy, request, ways)
    answer = _restricted(policy, request, ways, answer) if policy.rules.restrictions else answer
    if policy.asks_first and answer.allowed:
        answer = _asked_first(policy, request, ways, answer)
    return _as_push(policy, request, answer) if request.query == STARTS_PUSH and answer.allowed else answer


def _restricted(policy: Policy, request: Request, ways: Readings, answer: Decision) -> Decision:
    """Return an allow with the smallest body limit of all restricting layers, or the denial of one of them."""
    for restriction in policy.rules.restrictions:
        within = restriction.verdict(request, ways)
        if within is None:
            return beyond_for_request(restriction, request, ways)
        if within.limit < answer.limit:
            answer = replace(answer, max_body=within.max_body)
    return answer


def allows(policy: Policy, request: Request) -> bool:
    """Return whether `decide` allows the request, without computing the reason for a denial."""
    if policy.refusal and not policy.empty:
        return False
    if policy.asks_first:
        return decide(policy, request).allowed
    ways = readings(request.path)
    effects = {rule.effect for rule in policy.index.rules_about(request.host, ways) if rule.matches(request, ways)}
    allowed = effects == {Effect.ALLOW} or (not effects and _granted(policy, request, ways) is not None)
    if not allowed or not all(restriction.verdict(request, ways) for restriction in policy.rules.restrictions):
        return False
    push = push_after(request)
    return push is None or allows(policy, push)


def _asked_first(policy: Policy, request: Request, ways: Readings, answer: Decision) -> Decision:
    """Return the denial of a request that a person has to allow, unless somebody did.

    A grant that lasts counts like a rule: it names its methods, but large uploads are allowed one by one. Nobody can be
    asked about a host service, so a rule with `ask: true` denies it.
    """
    why = policy.asking.why_asked(request, ways)
    if not _takes_grants(policy, request.host, request.port):
        return _asks(why) if why else answer
    settings = policy.settings
    rules = [rule for rule in policy.index.rules_about(request.host, ways) if rule.matches(request, ways)]
    grants = policy.granted.matching(request, ways) if policy.granted is not None else []
    why = why or why_asked(settings, request, rules)
    if why and rules and grants:
        answer = replace(answer, reason=f"{answer.reason}; {grants[0].verdict.reason}")
    if (why or not rules) and any(map(is_for_one_request, grants)):
        return answer
    if why:
        why = policy.asking.why_asked(request, ways, grants) or why_asked(settings, request, [*rules, *grants])
    if why:
        return _asks(why)
    unasked = unasked_body(settings, rules) if request.body_size is None else None
    return answer if unasked is None or unasked > answer.limit else replace(answer, max_body=unasked)


def _asks(why: Asked) -> Decision:
    rule = str(why.origin) if why.origin else None
    return Decision(effect=Effect.DENY, rule=rule, origin=why.origin, reason=why.reason, cause=Cause.ASK)


def decide_with_secrets(policy: Policy, request: Request) -> tuple[Decision, Injection | None]:
    """Return the decision on a request that secrets can be injected into, and the injection.

    The injection is that of the most specific matching rule that has one, or None if there is none or the request is
    denied.
    """
    if not policy.asks_secrets:
        return decide(policy, request), None
    filled = replace(request, secrets=True)
    decision = decide(policy, filled)
    if not decision.allowed:
        return decision, None
    ways = readings(request.path)
    about = (rule for rule in policy.index.rules_about(request.host, ways) if rule.conditions.inject)
    rules = [rule for rule in about if rule.matches(filled, ways)]
    if not rules:
        return decision, None
    verdict, inject = rules[0].verdict, rules[0].conditions.inject
    # The size limit comes from rules with the same injection: others allow a larger body only without it.
    limits = (rule.verdict for rule in rules if rule.conditions.inject == inject)
    widest = max(limits, key=lambda one: one.limit)
    return replace(verdict, max_body=min(widest, decision, key=lambda one: one.limit).max_body), inject


def decide_connect(policy: Policy, *, host: str, port: int) -> Decision:
    """Return the decision on a CONNECT: allowed if some rule could allow a request to this host and port.

    Each request inside the tunnel is decided on its own.
    """
    if policy.refusal and not policy.empty:
        return _refused(policy)
    rules = policy.index.rules_for(host)
    there = [rule for rule in rules if rule.conditions.ports is None or port in rule.conditions.ports]
    for rule in there:
        if rule.effect is Effect.DENY and rule.conditions.of_the_host_alone:
            return rule.verdict
    answer = next((rule.verdict for rule in there if rule.effect is Effect.ALLOW), None)
    if answer is None and policy.granted is not None and _takes_grants(policy, host, port):
        answer = policy.granted.for_connect(host, port)
    if answer is None and policy.empty:
        return _refused(policy)
    if answer is None:
        return no_rule_for_port(host, port, rules) or no_rule_for_host(policy.index, host)
    for restriction in policy.rules.restrictions:
        if not restriction.takes_connect(host, port):
            return beyond_for_port(restriction, host, port)
    # The size limit applies to the requests inside.
    return answer if answer.max_body is None else replace(answer, max_body=None)


def awaits_operation(policy: Policy, request: Request, decision: Decision | None = None) -> bool:
    """Return whether a request that is denied by its head could be allowed after its body is read as GraphQL or MCP.

    `decision` is that of `decide_with_secrets` on the head, if it is known already.
    """
    operation = request.operation or (ANY_OPERATION if policy.asks_operations else None)
    message = request.message or (ANY_MESSAGE if policy.asks_messages else None)
    if (operation, message) == (request.operation, request.message):
        return False
    filled = replace(request, secrets=True)
    allowed = allows(policy, filled) if decision is None else decision.allowed
    return not allowed and allows(policy, replace(filled, operation=operation, message=message))


def awaits_message(policy: Policy, request: Request) -> bool:
    """Return whether a request that is denied by its head could be allowed after its body is read as MCP."""
    if request.message is not None or not policy.asks_messages:
        return False
    return allows(policy, replace(request, secrets=True, message=ANY_MESSAGE))


def _granted(policy: Policy, request: Request, ways: Readings) -> Decision | None:
    if policy.granted is None or not _takes_grants(policy, request.host, request.port):
        return None
    return policy.granted.verdict(request, ways)


def _takes_grants(policy: Policy, host: str, port: int) -> bool:
    """Return whether grants count here. A host service leads to a private address, which no grant may reach."""
    return policy.host_service(host, port) is None


def _as_push(policy: Policy, request: Request, answer: Decision) -> Decision:
    """Return the denial of the push that this GET starts, or `answer`.

    Otherwise git would ask for a password first, although nothing can be pushed.
    """
    push = push_after(request)
    after = decide(policy, push) if push else answer
    # A push may start: the person is asked when it sends.
    return answer if after.allowed or after.cause is Cause.ASK else replace(after, reason=f"{NO_PUSH}: {after.reason}")


def _not_allowed(policy: Policy, request: Request, ways: Readings) -> Decision:
    if policy.empty:
        return _refused(policy)
    return no_rule_for_request(request, ways, policy.index) or no_rule_for_host(policy.index, request.host)


def _refused(policy: Policy) -> Decision:
    cause = Cause.EMPTY if policy.empty else Cause.POLICY
    return Decision(effect=Effect.DENY, rule=None, origin=None, reason=policy.refusal, cause=cause)
