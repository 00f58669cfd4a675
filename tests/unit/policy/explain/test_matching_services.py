from agent_sandbox.policy.compiler.compile import compile_policy, offered
from agent_sandbox.policy.explain.matching_services import ServiceIndex, matching_services
from policy_texts import LayerOf, PolicyOf, RequestOf


def test_lists_up_to_three_services_that_allow_a_request_narrowest_first(
    layer_of: LayerOf, request_of: RequestOf, policy_of: PolicyOf
) -> None:
    policy = policy_of("domains: [x.test]")
    services = {
        "wide": layer_of("domains: [a.test, b.test, c.test]"),
        "narrow": layer_of("domains: [a.test]"),
        "reading": layer_of("domains: [{host: a.test, rules: [{methods: [GET]}]}, d.test, e.test]"),
        "other": layer_of("domains: [z.test]"),
        "four": layer_of("domains: [a.test, b.test, c.test, d.test]"),
    }
    offers = offered(services)
    assert matching_services(request_of("GET https://a.test/"), offers, policy) == ("narrow", "wide", "reading")
    assert matching_services(request_of("POST https://a.test/"), offers, policy) == ("narrow", "wide", "four")
    assert matching_services(request_of("GET https://nobody.test/"), offers, policy) == ()


def test_does_not_suggest_a_service_that_the_policy_already_names(layer_of: LayerOf, request_of: RequestOf) -> None:
    services = {"x": layer_of("domains: [{host: a.test, rules: [{methods: [GET]}]}]", name="service x")}
    policy = compile_policy([layer_of("services: [x]")], services)
    offers = offered({"x": layer_of("domains: [a.test]")})
    assert matching_services(request_of("POST https://a.test/"), offers, policy) == ()


def test_the_index_finds_all_services_with_rules_about_a_host(layer_of: LayerOf) -> None:
    services = offered(
        {
            "exact": layer_of("domains: [a.test, b.test]"),
            "below": layer_of('domains: ["*.a.test"]'),
            "both": layer_of('domains: [{host: a.test, rules: [{methods: [GET]}]}, "*.b.test"]'),
            "denied": layer_of('deny: ["x.a.test"]'),
            "other": layer_of("domains: [z.test]"),
        }
    )
    about = ServiceIndex(services).about
    assert about("x.a.test") == {name: services[name] for name in ("below", "denied")}
    for host in ("a.test", "b.test", "x.a.test", "x.b.test", "z.test", "test", "nobody.example"):
        assert [*about(host)] == [name for name, policy in services.items() if policy.index.rules_for(host)]
