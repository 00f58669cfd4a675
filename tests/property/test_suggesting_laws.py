"""The laws of suggesting: suggestions allow no more than the agent requested."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.policy import Policy, compile_policy, decide
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.suggest.denials import read_denials
from agent_sandbox.policytools.suggest.suggesting import suggest
from log_lines import denied

DENIES = "domains: [c.test]\ndeny: [b.test, POST https://a.test/1]\n"
HOSTS = ("a.test", "b.test", "c.test", "x.a.test", "10.0.0.1", "localhost", "203.0.113.1", "evil.test:8443")
SEGMENTS = ("1", "2", "3", "4", "admin", "*", "%2A", "..", "a;b", "a%2Fb", "é", "")

asked = st.builds(
    lambda method, scheme, host, path: f"{method} {scheme}://{host}/{'/'.join(path)}",
    st.sampled_from(("GET", "HEAD", "POST", "TRACE", "get")),
    st.sampled_from(("http", "https")),
    st.sampled_from(HOSTS),
    st.lists(st.sampled_from(SEGMENTS), max_size=3),
)
logs = st.lists(st.tuples(asked, st.sampled_from(("host", "request", "rule", "address", ""))), max_size=12)
junk = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(("deny", "request", "host"))
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)


def policy_of(text: str) -> Policy:
    return compile_policy([parse_layer(text, name="project", file="p", shown="p", services=())], {})


@given(logs)
def test_suggestions_allow_only_requests_that_were_made(log: list[tuple[str, str]]) -> None:
    denials = read_denials(denied(line, cause=cause) for line, cause in log)
    policy = policy_of(DENIES)
    found = suggest(denials, policy, {})
    for proposal in found.proposals:
        alone = policy_of(f"allow: ['{proposal.rule.text}']\n")
        taken = [request for request in denials.requests if decide(alone, request).allowed]
        assert taken
        assert all(request.host not in denials.closed for request in taken)
        assert not any(decide(policy, request).allowed for request in taken)
        host = proposal.rule.rule.conditions.host
        assert (str(host), host.name) == (taken[0].host, taken[0].host)
        segments = proposal.rule.text.split("/")[3:]
        assert "**" not in proposal.rule.text
        for star in (place for place, segment in enumerate(segments) if "*" in segment):
            assert len({request.path.split("/")[star + 1] for request in taken}) >= 3
        if not any("*" in segment for segment in segments):
            assert len({request.path for request in taken}) == 1


@given(st.dictionaries(st.sampled_from(("decision", "event", "cause", "host", "port", "path", "time")), junk))
@example({"host": "A"})
def test_any_line_counts_as_one_denial_or_none(values: dict[str, object]) -> None:
    line = json.dumps(json.loads(denied("GET https://a.test/")) | values)
    denials = read_denials([line])
    suggest(denials, policy_of(DENIES), {})
    assert sum(seen.count for seen in (*denials.requests.values(), *denials.others.values())) <= 1


@given(st.text())
def test_reads_any_text(text: str) -> None:
    assert read_denials([text]).unreadable <= 1
