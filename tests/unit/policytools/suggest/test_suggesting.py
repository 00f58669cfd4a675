from collections.abc import Callable

import pytest

from agent_sandbox.policy import compile_policy
from agent_sandbox.policytools.suggest.denials import read_denials
from agent_sandbox.policytools.suggest.noise_filter import RESERVED
from agent_sandbox.policytools.suggest.suggesting import Suggestions, suggest
from log_lines import denied
from policy_texts import LayerOf, PolicyOf
from table_tests import each

ADDRESS = "the name resolves to an address that the sandbox cannot reach"


@pytest.fixture
def found(policy_of: PolicyOf) -> Callable[..., Suggestions]:
    """Return a function that makes suggestions for denied requests."""

    def suggestions(*asked: str, text: str = "domains: [other.test]") -> Suggestions:
        return suggest(read_denials(map(denied, asked)), policy_of(text), {})

    return suggestions


type Found = Callable[..., Suggestions]


def lines(of: Suggestions) -> list[str]:
    return [proposal.rule.text for proposal in of.proposals]


def left(of: Suggestions) -> list[str]:
    return list(of.left_out)


@each(
    ("asked", "line"),
    [
        ("GET https://a.test/x", "GET https://a.test/x"),
        ("GET http://a.test/x", "GET http://a.test/x"),
        ("HEAD https://a.test:8443/", "HEAD https://a.test:8443/"),
        ("GET https://a.test/%61*", "GET https://a.test/a%2A"),
        ("PROPFIND https://203.0.112.7/", "PROPFIND https://203.0.112.7/"),
    ],
)
def test_suggests_a_denied_request_as_it_was_sent(found: Found, asked: str, line: str) -> None:
    got = found(asked)
    assert (lines(got), left(got)) == ([line], [])


def test_writes_an_ipv6_address_in_brackets(policy_of: PolicyOf) -> None:
    line = denied("GET https://a.test/", host="2606:4700::1")
    assert lines(suggest(read_denials([line]), policy_of(""), {})) == ["GET https://[2606:4700::1]/"]


def test_lists_the_most_frequent_request_first_and_counts_head_with_get(found: Found) -> None:
    got = found("GET https://b.test/", "GET https://a.test/", "HEAD https://a.test/")
    assert [(proposal.rule.text, proposal.seen.count) for proposal in got.proposals] == [
        ("GET https://a.test/", 2),
        ("GET https://b.test/", 1),
    ]


def test_generalises_values_to_a_star_for_one_method_of_one_host(found: Found) -> None:
    got = found(*(f"POST https://a.test/i/{number}" for number in (1, 2, 3)), "POST https://b.test/i/4")
    assert lines(got) == ["POST https://a.test/i/*", "POST https://b.test/i/4"]
    assert got.proposals[0].values == (("1", "2", "3"),)


@each(
    ("asked", "why"),
    [
        ("GET http://127.0.0.1/", "a private host"),
        ("GET http://169.254.169.254/latest", "a private host"),
        ("GET http://localhost/", "a private host"),
        ("GET http://metadata.google.internal/", "a private host"),
        ("GET http://nas.home.arpa/", "a private host"),
        ("TRACE https://a.test/", "no rule can name the method TRACE"),
        ("GET https://denied.test/x", "denied by policy.yaml:2 (any method denied.test)"),
        ("GET https://other.test/x", "allowed by now"),
        ("GET https://a.test/a;b=1", "the short form cannot express it"),
        ("GET https://a.test/a%2Fb", "the short form cannot express it"),
    ],
)
def test_gives_a_reason_for_each_request_that_is_not_suggested(found: Found, asked: str, why: str) -> None:
    got = found(asked, text="domains: [other.test]\ndeny: [denied.test]")
    assert (lines(got), left(got)) == ([], [why])


def test_never_suggests_a_name_that_resolved_to_a_forbidden_address(policy_of: PolicyOf) -> None:
    log = [denied("GET https://a.test/"), denied("GET https://a.test/x", cause="address")]
    got = suggest(read_denials(log), policy_of(""), {})
    assert (lines(got), got.left_out[ADDRESS].count) == ([], 2)


def test_does_not_suggest_requests_beyond_a_restriction(layer_of: LayerOf) -> None:
    policy = compile_policy([layer_of("tighten: true\ndomains: [b.test]"), layer_of("domains: [b.test]")], {})
    got = suggest(read_denials([denied("GET https://a.test/")]), policy, {})
    assert (lines(got), left(got)) == ([], ["denied by a restricting layer"])


@each(
    ("asked", "warnings"),
    [
        ("GET https://a.test/", ()),
        ("POST https://a.test/", ("it writes: the agent can send data out this way",)),
        ("GET http://a.test/", ("not encrypted: anyone on the network path can read and change it",)),
        ("GET https://203.0.112.7/", ("an address: no name says who owns it",)),
        (
            "POST https://paste.rs/",
            (
                "it writes: the agent can send data out this way",
                "paste.rs accepts pastes from anyone: anyone who knows the URL can read what the agent pastes there",
            ),
        ),
        ("GET https://_a.xn--bcher-kva.example/", ("the host is displayed as _a.bücher.example: check each letter",)),
    ],
)
def test_suggestions_have_warnings(found: Found, asked: str, warnings: tuple[str, ...]) -> None:
    (proposal,) = found(asked).proposals
    assert proposal.warnings == warnings


def test_suggests_services_that_allow_all_requests_of_a_suggestion(policy_of: PolicyOf) -> None:
    asked = [f"GET https://a.test/x/{number}" for number in (1, 2, 3)]
    denials = read_denials(map(denied, [*asked, "POST https://a.test/x/1"]))
    offers = {
        "wide": policy_of("domains: [{host: a.test, rules: [{methods: [GET]}]}]"),
        "one": policy_of("allow: [GET https://a.test/x/1]"),
        "other": policy_of("domains: [other.test]"),
    }
    got = suggest(denials, policy_of("version: 1"), offers)
    assert [(proposal.rule.text, proposal.services) for proposal in got.proposals] == [
        ("GET https://a.test/x/*", ("wide",)),
        ("POST https://a.test/x/1", ()),
    ]


def test_suggests_a_package_manager_for_a_likely_registry_unless_a_service_matches(policy_of: PolicyOf) -> None:
    log = [
        denied("GET https://a.test/a", tool="npm"),
        denied("GET https://b.test/simple/b/"),
        denied("GET https://c.test/"),
    ]
    offers = {"python": policy_of("domains: [b.test]")}
    for known, resolved in (({}, ["node", "python", None]), (offers, ["node", None, None])):
        got = suggest(read_denials(log), policy_of("version: 1"), known)
        assert [proposal.package_manager and proposal.package_manager.service for proposal in got.proposals] == resolved


def test_does_not_suggest_requests_of_verify(policy_of: PolicyOf) -> None:
    hosts = ("agent-sandbox.invalid", "198.51.100.1", "2001:db8::1")
    log = [denied("GET https://a.test/", host=host) for host in hosts]
    log.append(denied("GET https://a.test/", host="agent-sandbox.invalid", event="connect"))
    got = suggest(read_denials(log), policy_of("version: 1"), {})
    assert (lines(got), {why: seen.count for why, seen in got.left_out.items()}) == ([], {RESERVED: 4})


def test_suggests_no_star_that_allows_a_refused_request(policy_of: PolicyOf) -> None:
    asked = [denied(f"GET https://a.test/i/{number}/x") for number in range(4)]
    refused = denied("GET https://a.test/i/999/x", cause="rule")
    got = suggest(read_denials([*asked, refused]), policy_of(""), {})
    assert lines(got) == [f"GET https://a.test/i/{number}/x" for number in range(4)]
    assert [request.path for request in got.refused] == ["/i/999/x"]
    elsewhere = denied("GET https://a.test:8443/i/999/x", cause="rule")
    assert lines(suggest(read_denials([*asked, elsewhere]), policy_of(""), {})) == ["GET https://a.test/i/*/x"]
