from collections.abc import Callable

import pytest

from agent_sandbox.policy.decision import Cause, Decision, Effect
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.nearest import no_rule_for_host, no_rule_for_port, no_rule_for_request
from agent_sandbox.policy.path import readings
from agent_sandbox.policy.request import Request

type PolicyOf = Callable[[str], Policy]
type RequestOf = Callable[[str], Request]

POLICY = """
domains:
  - host: api.test
    rules:
      - {methods: [GET], path: {prefix: /v1/}}
      - {methods: [PUT], path: {exact: /v2}, schemes: [https]}
  - "*.wild.test"
  - exact.test
  - .both.test
deny:
  - deny.test
  - "*.denied.test"
"""


@pytest.mark.parametrize(
    ("line", "reason", "nearest"),
    [
        ("POST https://api.test/v1/x", "method POST is not", "policy.yaml:5 allows GET, HEAD api.test/v1/..."),
        (
            "POST http://api.test/v2",
            "scheme http and method POST are not",
            "policy.yaml:6 allows PUT https://api.test/v2",
        ),
        ("GET https://api.test/v3", "path /v3 is not", "policy.yaml:5 allows GET, HEAD api.test/v1/..."),
    ],
)
def test_a_denial_names_the_nearest_rule_and_what_differed(
    policy_of: PolicyOf, request_of: RequestOf, line: str, reason: str, nearest: str
) -> None:
    request = request_of(line)
    rules = policy_of(POLICY).index.rules_for("api.test")
    assert no_rule_for_request(request, readings(request.path), rules) == Decision(
        effect=Effect.DENY,
        rule=None,
        origin=None,
        reason=f"host api.test is allowed, {reason}: {nearest}",
        near_miss=nearest,
        cause=Cause.REQUEST,
    )


def test_a_connect_to_another_port_names_the_rule_that_has_ports(policy_of: PolicyOf) -> None:
    got = no_rule_for_port("exact.test", 22, policy_of(POLICY).index.rules_for("exact.test"))
    assert got is not None
    assert got.reason == "host exact.test is allowed, port 22 is not: policy.yaml:8 allows any method exact.test"


def test_a_host_without_an_allow_has_no_nearest_request(policy_of: PolicyOf, request_of: RequestOf) -> None:
    rules = policy_of(POLICY).index.rules_for("deny.test")
    request = request_of("GET https://deny.test/")
    assert no_rule_for_request(request, ("/",), rules) is None
    assert no_rule_for_port("deny.test", 443, rules) is None


@pytest.mark.parametrize(
    ("host", "nearest"),
    [
        ("wild.test", "policy.yaml:7 allows any method *.wild.test"),
        ("a.exact.test", "policy.yaml:8 allows any method exact.test"),
        ("a.b.exact.test", "policy.yaml:8 allows any method exact.test"),
        ("denied.test", ""),
        ("a.deny.test", ""),
        ("evil.test", ""),
    ],
)
def test_a_host_that_nobody_names_is_told_of_its_parent_and_children(
    policy_of: PolicyOf, host: str, nearest: str
) -> None:
    tail = f": {nearest}" if nearest else ""
    assert no_rule_for_host(policy_of(POLICY).index, host) == Decision(
        effect=Effect.DENY,
        rule=None,
        origin=None,
        reason=f"no rule allows host {host}{tail}",
        near_miss=nearest,
        cause=Cause.HOST,
    )
