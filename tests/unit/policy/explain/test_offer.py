import pytest
from msgspec.structs import replace

from agent_sandbox.policy.compiler.compile import compile_policy
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from policy_texts import PolicyOf, RequestOf
from table_tests import each

NOTHING = compile_policy([], {})


@each(
    ("line", "text"),
    [
        ("GET https://a.test/x/y?z=1", "GET https://a.test/**"),
        ("HEAD http://a.test:8080/", "GET http://a.test:8080/**"),
        ("GET https://a.test:80/", "GET https://a.test:80/**"),
        ("POST https://a.test/v1/items?x=1", "POST https://a.test/v1/items"),
        ("PUT https://a.test/a*b%20c", "PUT https://a.test/a%2Ab%20c"),
        ("OPTIONS https://a.test/:", "OPTIONS https://a.test/:"),
    ],
)
def test_the_text_of_an_offer_parses_to_its_lasting_conditions(request_of: RequestOf, line: str, text: str) -> None:
    offer = offer_for(request_of(line), NOTHING)
    assert offer
    assert offer.text == text
    assert read_short_rule(Effect.ALLOW, [text]).rule.conditions == offer.lasting


@each(
    "line",
    ["PUT https://a.test/x;y", "PUT https://a.test/x%2Fy", "BREW https://a.test/", f"PUT https://a.test/{'x' * 2000}"],
)
def test_a_request_that_no_rule_can_express_is_offered_once(request_of: RequestOf, line: str) -> None:
    offer = offer_for(request_of(line), NOTHING)
    assert offer
    assert (offer.lasting, offer.text) == (None, "")


def test_offers_only_the_exact_request_if_a_rule_already_allows_it(policy_of: PolicyOf, request_of: RequestOf) -> None:
    policy = policy_of("domains: [a.test, 9.9.9.9]\nsettings: {ask: {about: [writes], uploads: 9}}")
    for line, size, text in (
        ("POST https://9.9.9.9/x", 0, "POST https://9.9.9.9/x"),
        ("POST https://a.test/x", 0, "POST https://a.test/x"),
        ("POST https://a.test/x", 10, ""),
        ("GET https://a.test/x", 10, ""),
    ):
        offer = offer_for(replace(request_of(line), body_size=size), policy)
        assert (offer and offer.text) == text


@each(
    ("line", "text", "by_rule"),
    [
        ("GET https://a.test/x?y", "GET https://a.test/x", True),
        ("POST https://a.test/x", "POST https://a.test/x", True),
        ("POST https://a.test/x;y", "", False),
        ("GET https://b.test/x", "GET https://b.test/**", False),
    ],
)
def test_offers_only_the_exact_request_if_a_rule_asks_about_it(
    policy_of: PolicyOf, request_of: RequestOf, line: str, text: str, *, by_rule: bool
) -> None:
    offer = offer_for(request_of(line), policy_of("domains: [{host: a.test, ask: true}]"))
    assert offer
    assert (offer.text, offer.asked_by_rule) == (text, by_rule)


@pytest.mark.parametrize(
    "host", ["9.9.9.9", "10.0.0.1", "[::1]", "169.254.169.254", "localhost", "db.internal", "nas", "x.invalid"]
)
def test_does_not_offer_private_hosts_or_addresses(request_of: RequestOf, host: str) -> None:
    assert offer_for(request_of(f"GET http://{host}/"), NOTHING) is None
