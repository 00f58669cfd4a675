from agent_sandbox.proxy.limits import Limits


def test_a_denial_never_waits_longer_than_a_client_would() -> None:
    limits = Limits()
    assert max(limits.head_seconds, limits.hello_seconds, limits.resolve_seconds, limits.connect_seconds) <= 10
