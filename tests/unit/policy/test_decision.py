import math

from msgspec.structs import replace

from agent_sandbox.policy.decision import Decision, Effect, Origin


def test_only_an_allow_is_allowed() -> None:
    answers = {effect: Decision(effect=effect, rule=None, origin=None, reason="").allowed for effect in Effect}
    assert answers == {Effect.ALLOW: True, Effect.DENY: False}


def test_a_missing_limit_is_infinite() -> None:
    allowed = Decision(effect=Effect.ALLOW, rule=None, origin=None, reason="")
    assert [replace(allowed, max_body=size).limit for size in (0, 2**63, None)] == [0, 2**63, math.inf]


def test_shows_an_origin_as_file_and_line() -> None:
    assert str(Origin(file="policy.yaml", line=12, layer="project")) == "policy.yaml:12"
