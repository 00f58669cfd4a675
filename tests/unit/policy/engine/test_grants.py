from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.grants import Grants
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.host_pattern import parse_host_pattern

type PolicyOf = Callable[[str], Policy]
type RequestOf = Callable[[str], Request]

NOTHING = compile_policy([], {})
HERE = Origin(file="grant", line=1, layer="grant")
GOOD = Conditions(host=parse_host_pattern("a.test"), ports=frozenset({443}), methods=frozenset({"GET"}))


def test_the_first_grant_that_matches_decides(request_of: RequestOf) -> None:
    rules = (Rule(effect=Effect.ALLOW, conditions=GOOD, origin=HERE, reason="once"),)
    grants, request = Grants(rules=rules), request_of("GET https://a.test/x")
    assert grants.verdict(request, readings(request.path)) == rules[0].verdict
    assert grants.verdict(request._replace(method="PUT"), readings(request.path)) is None
    assert grants.for_connect("a.test", 443) == rules[0].verdict
    assert (grants.for_connect("a.test", 80), grants.for_connect("b.test", 443)) == (None, None)


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
    with pytest.raises(ValueError, match="not a valid grant"):
        Grants(rules=(unfit,))
