"""The laws of `policy diff`: it reports everything that opens, and ignores a different order."""

from random import Random

from hypothesis import given

from agent_sandbox.policy import Effect, Request
from agent_sandbox.policytools.compare.difference import difference
from policy_strategies import Entry, effect, orders, policy, requests, specs


@given(specs, specs, requests)
def test_reports_a_change_for_every_request_that_only_one_policy_allows(
    before: Entry, after: Entry, request: Request
) -> None:
    old, new = policy(before), policy(after)
    changes = difference(old, new)
    answers = (effect(old, request), effect(new, request))
    assert answers != (Effect.DENY, Effect.ALLOW) or changes.opens
    assert answers != (Effect.ALLOW, Effect.DENY) or changes.stops


@given(specs, orders)
def test_a_different_order_is_not_a_change(spec: Entry, random: Random) -> None:
    shuffled = {section: random.sample(spec[section], len(spec[section])) for section in ("domains", "deny")}
    changes = difference(policy(spec), policy({**spec, **shuffled}))
    assert (changes.opens, changes.stops) == ((), ())
