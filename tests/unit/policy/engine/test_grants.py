from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.decide import decide, decide_connect
from agent_sandbox.policy.engine.grants import Grants
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_pattern import parse_host_pattern

type PolicyOf = Callable[[str], Policy]
type RequestOf = Callable[[str], Request]

HERE = Origin(file="grant", line=1, layer="grant")
GOOD = Conditions(host=parse_host_pattern("a.test"), ports=frozenset({443}), methods=frozenset({"GET"}))


def granted(policy: Policy, request: Request) -> Policy:
    """Return the policy with a grant of what `request` asks for."""
    offer = offer_for(request)
    assert offer
    return replace(
        policy, granted=Grants(rules=(Rule(effect=Effect.ALLOW, conditions=offer.once, origin=HERE, reason="once"),))
    )


def test_allows_a_granted_request_and_its_tunnel(policy_of: PolicyOf, request_of: RequestOf) -> None:
    request = request_of("POST https://new.test/x")
    for text in ("domains: [a.test]", "domains: []"):
        policy = granted(policy_of(text), request)
        assert decide(policy, request).reason == "allowed by grant:1: once"
        assert decide_connect(policy, host="new.test", port=443).allowed
        assert not decide(policy, request._replace(method="GET")).allowed
        assert not decide_connect(policy, host="new.test", port=8443).allowed


def test_does_not_grant_a_host_service(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("host_services: {nas: {to: nas.example.com:8080}}")
    request = request_of("POST http://nas.example.com:8080/")
    assert decide(policy, request).allowed
    without_its_rule = replace(policy, index=policy_of("deny: [b.test]").index)
    after = granted(without_its_rule, request)
    assert not decide(after, request).allowed
    assert not decide_connect(after, host=request.host, port=request.port).allowed


@pytest.mark.parametrize(
    "unfit",
    [
        Rule(effect=Effect.DENY, conditions=GOOD, origin=HERE),
        *(
            Rule(effect=Effect.ALLOW, conditions=replace(GOOD, **wide), origin=HERE)
            for wide in (
                {"host": parse_host_pattern("*.a.test")},
                {"host": parse_host_pattern("localhost")},
                {"host": parse_host_pattern("10.0.0.1")},
                {"ports": None},
                {"methods": None},
                {"inspect": False},
            )
        ),
    ],
)
def test_a_grant_is_one_public_host_and_no_secret(unfit: Rule) -> None:
    with pytest.raises(ValueError, match="no grant can be"):
        Grants(rules=(unfit,))
