import pytest
from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy, offered
from agent_sandbox.problems import UserError
from policy_texts import LayerOf


def test_compiles_the_rules_of_every_layer(layer_of: LayerOf) -> None:
    policy = compile_policy([layer_of("domains: [a.test]"), layer_of("deny: [b.test]")], {})
    assert [str(rule.conditions.host) for rule in policy.rules.rules] == ["a.test", "b.test"]
    assert policy.refusal == ""


def test_expands_services_to_their_rules(layer_of: LayerOf) -> None:
    policy = compile_policy([layer_of("services: [x]")], {"x": layer_of("domains: [s.test]")})
    assert [str(rule.conditions.host) for rule in policy.rules.rules] == ["s.test"]


def test_unknown_service_error_lists_the_known_services(layer_of: LayerOf) -> None:
    with pytest.raises(UserError) as error:
        compile_policy([layer_of("domains: []\nservices: [x]")] * 2, {"b": layer_of(""), "a": layer_of("")})
    assert str(error.value) == "\n".join(["policy.yaml:2: unknown service 'x'; known: a, b"] * 2)


def test_a_policy_without_an_allow_reports_that_it_allows_nothing(layer_of: LayerOf) -> None:
    lower = replace(layer_of("deny: [a.test]"), file="team.yaml")
    assert compile_policy([lower, layer_of("")], {}).refusal == "team.yaml, policy.yaml allows nothing yet"
    assert compile_policy([], {}).refusal == "the policy allows nothing yet"


def test_compiles_each_service_on_its_own_to_its_default_rules(layer_of: LayerOf) -> None:
    offers = offered({"a": layer_of("domains: [a.test]"), "b": layer_of("domains: [b.test]")})
    hosts = {name: [str(rule.conditions.host) for rule in offer.rules.rules] for name, offer in offers.items()}
    assert hosts == {"a": ["a.test"], "b": ["b.test"]}


def test_reports_two_secrets_that_would_be_injected_into_the_same_requests(layer_of: LayerOf) -> None:
    lower, higher = (
        layer_of(f"domains:\n- {{host: a.test, transform: {{request: {{headers: {{X: {key}}}}}}}}}")
        for key in ("{secret: a, transform: {type: bearer}}", "{secret: b, transform: {type: bearer}}")
    )
    with pytest.raises(UserError) as raised:
        compile_policy([replace(lower, file="l"), replace(higher, file="h")], {})
    told = "l:2: secret a in x would be injected into the same requests as secret b in x by h:2"
    assert [str(problem).partition(";")[0] for problem in raised.value.problems] == [told]
