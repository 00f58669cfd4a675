"""The laws of trust: a policy that is trusted without a prompt allows nothing that was not trusted."""

from hypothesis import given

from agent_sandbox.features.trust.reach_diff import NOTHING, widens
from agent_sandbox.policy import Effect, Request
from policy_strategies import Entry, effect, policy, requests, specs


@given(specs, specs, requests)
def test_a_policy_that_is_trusted_without_a_prompt_allows_nothing_more(
    before: Entry, after: Entry, request: Request
) -> None:
    trusted, now = policy(before), policy(after)
    if not widens(now, trusted):
        assert effect(trusted, request) is Effect.ALLOW or effect(now, request) is Effect.DENY
        assert trusted.passthrough(request.host, request.port) or not now.passthrough(request.host, request.port)


@given(specs, requests)
def test_a_policy_that_allows_anything_widens_an_empty_policy(spec: Entry, request: Request) -> None:
    now = policy(spec)
    assert widens(now, NOTHING) or effect(now, request) is Effect.DENY


@given(specs)
def test_an_unchanged_policy_widens_nothing(spec: Entry) -> None:
    assert widens(policy(spec), policy(spec)) == ()
