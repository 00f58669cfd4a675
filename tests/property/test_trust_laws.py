"""The law of trust: what is taken unasked lets nothing through that was not trusted."""

from hypothesis import given

from agent_sandbox.policy import Effect, Request
from agent_sandbox.runtime.trust.reach_diff import NOTHING, widens
from policy_strategies import Entry, effect, policy, requests, specs


@given(specs, specs, requests)
def test_what_is_taken_unasked_was_trusted(before: Entry, after: Entry, request: Request) -> None:
    trusted, now = policy(before), policy(after)
    if not widens(now, trusted):
        assert effect(trusted, request) is Effect.ALLOW or effect(now, request) is Effect.DENY
        assert trusted.passthrough(request.host, request.port) or not now.passthrough(request.host, request.port)


@given(specs, requests)
def test_a_policy_that_came_with_a_clone_is_always_asked_about(spec: Entry, request: Request) -> None:
    now = policy(spec)
    assert widens(now, NOTHING) or effect(now, request) is Effect.DENY


@given(specs)
def test_what_has_not_changed_is_not_asked_about(spec: Entry) -> None:
    assert widens(policy(spec), policy(spec)) == ()
