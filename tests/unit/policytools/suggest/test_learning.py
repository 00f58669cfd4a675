from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy import Layer, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.suggest.denials import read_traffic
from agent_sandbox.policytools.suggest.learning import TOO_LONG, Learned, learn, replay
from log_lines import denied
from policy_texts import PolicyOf

LONG = "a1" * 65


@pytest.fixture
def learned(policy_of: PolicyOf) -> Callable[..., Learned]:
    """Return a function that learns from log lines; known services are `github` and `statuspage`."""

    def from_lines(*lines: str, text: str = "domains: [listed.test]") -> Learned:
        offers = {"github": policy_of("domains: [github.com]"), "statuspage": policy_of("domains: [status.test]")}
        return learn(read_traffic(lines, since=""), policy_of(text), offers)

    return from_lines


type LearnedFrom = Callable[..., Learned]


def entries(of: Learned) -> list[tuple[str, str, int]]:
    return [(entry.section, entry.text, entry.seen.count) for entry in of.entries]


def test_learns_services_for_package_managers_and_git_and_rules_for_the_rest(learned: LearnedFrom) -> None:
    found = learned(
        denied("GET https://a.test/"),
        denied("GET https://a.test/"),
        denied("GET https://npm.test/left-pad", tool="npm"),
        denied("GET https://npm.test/left-pad/-/left-pad-1.0.0.tgz"),
        denied("GET https://github.com/o/n.git/info/refs", tool="git fetch"),
        denied("POST https://github.com/o/n.git/git-upload-pack"),
        denied("GET https://github.com/o/n/releases"),
        denied("GET https://status.test/"),
    )
    assert entries(found) == [
        ("services", "github", 3),
        ("services", "node", 2),
        ("allow", "GET https://a.test/", 2),
        ("allow", "GET https://status.test/", 1),
    ]
    assert [entry.is_resolved for entry in found.entries] == [False, True, False, False]


def test_service_entries_have_no_warnings_and_rules_keep_theirs(learned: LearnedFrom) -> None:
    found = learned(denied("PUT https://npm.test/-/npm/v1/x", tool="npm"), denied("PUT https://a.test/"))
    assert [(entry.text, len(entry.warnings)) for entry in found.entries] == [("node", 0), ("PUT https://a.test/", 1)]


def test_leaves_out_paths_with_long_segments_and_uses_no_star_that_allows_them(learned: LearnedFrom) -> None:
    items = [denied(f"GET https://a.test/i/{number}") for number in range(3)]
    assert entries(learned(*items)) == [("allow", "GET https://a.test/i/*", 3)]
    found = learned(*items, denied(f"GET https://a.test/i/{LONG}"), denied(f"GET https://a.test/i/{LONG}"))
    assert [entry.text for entry in found.entries] == [f"GET https://a.test/i/{number}" for number in range(3)]
    assert {why: seen.count for why, seen in found.left_out.items()} == {TOO_LONG: 2}


def test_warns_about_many_hosts_below_one_domain(learned: LearnedFrom) -> None:
    several = [denied(f"GET https://x{number}.leak.example.co.uk/") for number in range(6)]
    found = learned(*several, denied("GET https://a.test/"))
    warning = "more than 5 hosts below example.co.uk were requested: their names can carry data out"
    assert [entry.warnings for entry in found.entries] == [(), *[(warning,)] * 6]
    assert [entry.warnings for entry in learned(*several[:5]).entries] == [()] * 5


def test_a_replay_counts_passing_requests_and_lists_failing_requests(learned: LearnedFrom, policy_of: PolicyOf) -> None:
    found = learned(
        denied("GET https://listed.test/", decision="allow", rule="policy.yaml:1"),
        denied("GET https://a.test/"),
        denied("GET https://a.test/"),
        denied("HEAD https://a.test/"),
        denied("GET https://b.test/"),
        denied("GET https://npm.test/x", tool="npm"),
        denied("GET https://closed.test/", cause="address"),
        denied("GET https://denied.test/", cause="rule"),
        denied("GET https://10.0.0.1/"),
    )
    after = policy_of("domains: [listed.test, a.test, closed.test, denied.test]\ndeny: [denied.test]")
    (npm,) = (entry.proposals[0].requests for entry in found.entries if entry.service)
    result = replay(found, after, untried=npm)
    assert (result.passed, result.all, result.leaking) == (4, 5, ())
    assert {request.host: why for request, why in result.failing.items()} == {"b.test": "no rule allows host b.test"}


def test_a_replay_lists_left_out_requests_that_would_pass(learned: LearnedFrom, policy_of: PolicyOf) -> None:
    found = learned(denied(f"GET https://a.test/i/{LONG}"))
    assert [request.path for request in replay(found, policy_of("domains: [a.test]")).leaking] == [f"/i/{LONG}"]


WORDS = st.sampled_from(["x", "1", "22", "5d41402abc4b", "..%2f", LONG, "%2e%2e", "~u"])
REQUESTS = st.tuples(
    st.sampled_from(["GET", "POST"]),
    st.sampled_from(["a.test", "b.a.test", "10.0.0.1", "denied.test", "x.s3.amazonaws.com"]),
    st.lists(WORDS, max_size=3),
    st.sampled_from(["host", "request", "rule", "address", ""]),
)


@given(st.lists(REQUESTS, max_size=12))
def test_learned_entries_allow_all_requests_except_those_left_out(asked: list[tuple[str, str, list[str], str]]) -> None:
    own = _layer("deny: [denied.test]")
    lines = [denied(f"{method} https://{host}/{'/'.join(words)}", cause=cause) for method, host, words, cause in asked]
    found = learn(read_traffic(lines, since=""), compile_policy([own], {}), {})
    rules = [entry.text for entry in found.entries]
    after = compile_policy([_layer(f"deny: [denied.test]\nallow: {rules}")], {})
    result = replay(found, after)
    assert result.leaking == ()
    assert result.failing == {}


def _layer(text: str) -> Layer:
    return parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=())
