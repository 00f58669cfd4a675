"""The laws of `policy diff`: nothing that opens goes untold, and the same policy in another order is no difference."""

from random import Random

from hypothesis import given

from agent_sandbox.policy import Effect, Request
from agent_sandbox.policytools.compare.difference import difference
from policy_strategies import Entry, effect, orders, policy, requests, specs


@given(specs, specs, requests)
def test_a_request_that_passes_on_one_side_alone_is_told(before: Entry, after: Entry, request: Request) -> None:
    old, new = policy(before), policy(after)
    changes = difference(old, new)
    answers = (effect(old, request), effect(new, request))
    assert answers != (Effect.DENY, Effect.ALLOW) or changes.opens
    assert answers != (Effect.ALLOW, Effect.DENY) or changes.stops


@given(specs, orders)
def test_another_order_is_no_difference(spec: Entry, random: Random) -> None:
    shuffled = {section: random.sample(spec[section], len(spec[section])) for section in ("domains", "deny")}
    changes = difference(policy(spec), policy({**spec, **shuffled}))
    assert (changes.opens, changes.stops) == ((), ())
