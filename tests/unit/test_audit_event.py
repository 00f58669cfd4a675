from agent_sandbox.audit_event import CHECKS, CONNECTIONS, REQUESTS, Event


def test_a_denied_event_suggests_a_rule_a_connection_or_nothing() -> None:
    assert not CHECKS & (REQUESTS | CONNECTIONS)
    assert not REQUESTS & CONNECTIONS
    assert set(Event) - CHECKS - REQUESTS - CONNECTIONS == {
        Event.TUNNEL,
        Event.DNS,
        Event.FAULT,
        Event.POLICY,
        Event.GRANT,
    }
