import pytest

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.decision import Cause, Decision, Effect, Origin
from agent_sandbox.policy.engine.decide import decide, decide_connect
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.http.path import readings
from policy_texts import LayerOf, RequestOf

CEILING = """
tighten: true
domains:
  - host: a.test
    rules: [{methods: [GET]}]
  - {host: b.test, ports: [8443]}
"""
ORIGIN = Origin(file="team.yaml", line=2, layer="team")
NARROWS = "layer team (team.yaml:2) restricts what all others allow"


def under(layer_of: LayerOf, text: str) -> Policy:
    return compile_policy([layer_of(CEILING, name="team", file="team.yaml"), layer_of(text)], {})


def test_names_the_rule_of_the_project_for_requests_within_the_restriction(
    layer_of: LayerOf, request_of: RequestOf
) -> None:
    policy = under(layer_of, "domains: [a.test]")
    assert decide(policy, request_of("GET https://a.test/")).rule == "policy.yaml:1"
    assert decide_connect(policy, host="a.test", port=443).rule == "policy.yaml:1"


def test_denies_requests_beyond_the_restriction_by_the_restricting_layer(
    layer_of: LayerOf, request_of: RequestOf
) -> None:
    told = "team.yaml:5 allows GET, HEAD a.test"
    expected = Decision(
        effect=Effect.DENY,
        rule="team.yaml:2",
        origin=ORIGIN,
        reason=f"{NARROWS}: host a.test is allowed, method POST is not: {told}",
        near_miss=told,
        cause=Cause.CEILING,
    )
    assert decide(under(layer_of, "domains: [a.test]"), request_of("POST https://a.test/")) == expected


@pytest.mark.parametrize(
    ("restriction", "project", "limit"),
    [
        ("{max_body: 1KB}", "{max_body: 2KB}", 1000),
        ("{max_body: 2KB}", "{max_body: 1KB}", 1000),
        ("{methods: [POST]}", "{methods: [POST]}", None),
    ],
)
def test_uses_the_smaller_body_limit_of_restriction_and_project(
    layer_of: LayerOf, request_of: RequestOf, restriction: str, project: str, limit: int | None
) -> None:
    layers = [
        layer_of(f"tighten: true\ndomains: [{{host: a.test, rules: [{restriction}, {{max_body: 1B}}]}}]"),
        layer_of(f"domains: [{{host: a.test, rules: [{project}]}}]"),
    ]
    assert decide(compile_policy(layers, {}), request_of("POST https://a.test/")).max_body == limit


def test_denies_a_connect_to_hosts_and_ports_beyond_the_restriction(layer_of: LayerOf, request_of: RequestOf) -> None:
    policy = under(layer_of, "domains: [b.test, c.test]")
    nobody, port = "no rule allows host c.test", "host b.test is allowed, port 443 is not"
    assert decide(policy, request_of("GET https://c.test/")).reason == f"{NARROWS}: {nobody}"
    assert decide_connect(policy, host="c.test", port=443).reason == f"{NARROWS}: {nobody}"
    told = f"{NARROWS}: {port}: team.yaml:6 allows any method b.test on port 8443"
    assert decide_connect(policy, host="b.test", port=443).reason == told


def test_a_restriction_without_allows_permits_nothing(request_of: RequestOf) -> None:
    restriction = Restriction(origin=ORIGIN, rules=())
    request = request_of("GET https://a.test/")
    assert restriction.verdict(request, readings(request.path)) is None
    assert not restriction.takes_connect("a.test", 443)
