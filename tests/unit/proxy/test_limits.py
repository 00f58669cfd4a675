from agent_sandbox.proxy.limits import Limits


def test_time_limits_before_a_denial_are_at_most_10_seconds() -> None:
    limits = Limits()
    assert max(limits.head_seconds, limits.hello_seconds, limits.resolve_seconds, limits.connect_seconds) <= 10
