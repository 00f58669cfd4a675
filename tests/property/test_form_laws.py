"""The law of the compiled policy: decoding an encoded policy gives an equal policy with the same texts."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy import Policy, Request, compile_policy, decide, decide_connect
from agent_sandbox.policy.compiler.codec import decode_policy, encode_policy
from agent_sandbox.policy.engine.dump import dump_rule
from policy_strategies import Entry, layer, requests, specs, tightened

tight = st.builds(lambda spec, tighten: tightened(spec, tighten=tighten), specs, st.booleans())


def again(policy: Policy) -> Policy:
    return decode_policy(json.loads(json.dumps(encode_policy(policy))), {})


@given(st.lists(tight, max_size=3), requests)
def test_a_decoded_policy_equals_and_decides_like_the_compiled_policy(layers: list[Entry], request: Request) -> None:
    policy = compile_policy([layer(spec) for spec in layers], {})
    read = again(policy)
    assert read == policy
    assert (read.settings, read.digest) == (policy.settings, policy.digest)
    assert list(map(dump_rule, read.rules.rules)) == list(map(dump_rule, policy.rules.rules))
    assert list(map(str, read.rules.rules)) == list(map(str, policy.rules.rules))
    assert decide(read, request) == decide(policy, request)
    host, port = request.host, request.port
    assert decide_connect(read, host=host, port=port) == decide_connect(policy, host=host, port=port)
    assert read.passthrough(host, port) == policy.passthrough(host, port)


@given(st.lists(tight, max_size=2))
def test_encoding_a_decoded_policy_gives_the_same_result(layers: list[Entry]) -> None:
    policy = compile_policy([layer(spec) for spec in layers], {})
    assert encode_policy(again(policy)) == encode_policy(policy)
