"""The laws of grants: a grant never changes the decision of a rule, a deny or a restricting layer."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.policy import (
    Cause,
    Effect,
    Origin,
    Policy,
    Request,
    awaits_operation,
    decide,
    decide_connect,
    decide_with_secrets,
)
from agent_sandbox.policy import allows as allowed
from agent_sandbox.policy.engine.grants import Grants
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.explain.offer import offer_for
from policy_strategies import ANYTHING, Entry, allows, policy, requests, specs, tightened

NOTHING = policy({"domains": [], "deny": []})
HERE = Origin(file="grant", line=1, layer="grant")


def with_grants(of: Policy, asked: list[Request]) -> Policy:
    """Return the policy with grants of these requests, once and lasting."""
    offers = filter(None, (offer_for(request, NOTHING) for request in asked))
    conditions = (one for offer in offers for one in (offer.once, offer.lasting) if one)
    rules = tuple(Rule(effect=Effect.ALLOW, conditions=one, origin=HERE) for one in conditions)
    return dataclasses.replace(of, granted=Grants(rules=rules))


granted = st.lists(requests, max_size=3)


@given(specs, st.none() | specs, granted, requests)
def test_a_grant_changes_only_decisions_that_no_rule_made(
    spec: Entry, above: Entry | None, asked: list[Request], request: Request
) -> None:
    plain = policy(tightened(above), spec) if above else policy(spec)
    policy_ = with_grants(plain, asked)
    before, after = decide(plain, request), decide(policy_, request)
    if before.allowed or before.cause in {Cause.RULE, Cause.CEILING, Cause.POLICY}:
        assert after == before
    assert after.allowed is allowed(policy_, request)
    if after.allowed:
        assert decide_connect(policy_, host=request.host, port=request.port).allowed
    assert decide_with_secrets(policy_, request)[1] == decide_with_secrets(plain, request)[1]
    assert decide(dataclasses.replace(policy_, granted=None), request) == before
    assert decide(dataclasses.replace(policy_, granted=Grants(rules=())), request) == before


@given(specs, specs, granted, requests)
def test_no_grant_allows_more_than_a_restricting_layer(
    spec: Entry, above: Entry, asked: list[Request], request: Request
) -> None:
    after = decide(with_grants(policy(tightened(above), spec), asked), request)
    assert not after.allowed or decide(policy({**above, "deny": []}), replace(request, secrets=True)).allowed


asks = st.sampled_from([{"about": ["writes"]}, {"uploads": 9}, {"about": ["unlisted", "writes"], "uploads": 15}])


@given(specs, st.none() | specs, asks, requests)
def test_the_ask_setting_and_its_answers_never_allow_more(
    spec: Entry, above: Entry | None, ask: Entry, request: Request
) -> None:
    over = (tightened(above),) if above else ()
    plain, asking = policy(*over, spec), policy(*over, {**spec, "settings": {"ask": ask}})
    before, after = decide(plain, request), decide(asking, request)
    assert after.allowed is allowed(asking, request)
    assert before.allowed or after == before
    assert after.allowed or not before.allowed or after.cause is Cause.ASK
    answered = with_grants(asking, [request])
    if after.cause is Cause.ASK and offer_for(request, NOTHING):
        assert decide(answered, request).allowed
    if not before.allowed:
        assert decide(answered, request) == decide(with_grants(plain, [request]), request)
    if decide(answered, request).allowed and before.allowed:
        assert decide_with_secrets(answered, request)[1] == decide_with_secrets(plain, request)[1]
    assert decide(dataclasses.replace(answered, granted=None), request) == after


@given(specs, st.none() | specs, allows, requests)
def test_a_rule_that_asks_allows_nothing_by_itself_and_an_answer_no_more_than_the_rule(
    spec: Entry, above: Entry | None, entry: Entry, request: Request
) -> None:
    over = (tightened(above),) if above else ()
    rules = [{key: rule[key] for key in rule if key != "graphql"} or ANYTHING for rule in entry.get("rules", ())]
    plain = {**entry, "rules": rules} if rules else entry
    without, with_it = policy(*over, spec), policy(*over, {**spec, "domains": [*spec["domains"], plain]})
    asking = policy(*over, {**spec, "domains": [*spec["domains"], {**plain, "ask": True}]})
    after = decide(asking, request)
    assert after.allowed is allowed(asking, request)
    assert not after.allowed or decide(without, request).allowed
    assert decide(with_it, request).allowed or after.effect is decide(with_it, request).effect
    answered = decide(with_grants(asking, [request]), request)
    if after.cause is Cause.ASK:
        assert decide(with_it, request).allowed
        assert answered.allowed is (offer_for(request, NOTHING) is not None)
    if after.cause in {Cause.RULE, Cause.CEILING} and not after.allowed:
        assert answered == after
    assert awaits_operation(without, request) or not awaits_operation(asking, request)


@given(requests, requests)
def test_a_grant_allows_the_request_and_no_other_host(asked: Request, request: Request) -> None:
    after = with_grants(policy({"domains": [], "deny": []}), [asked])
    assert decide(after, asked).allowed is (offer_for(asked, NOTHING) is not None)
    same = (request.host, request.port, request.scheme) == (asked.host, asked.port, asked.scheme)
    assert not decide(after, request).allowed or same
