from agent_sandbox.audit_event import CHECKS, CONNECTIONS, REQUESTS, Event


def test_an_event_of_a_record_is_compared_as_text() -> None:
    assert "health" in CHECKS
    assert "raw_tunnel" in CONNECTIONS


def test_a_denied_event_suggests_a_rule_a_connection_or_nothing() -> None:
    assert not CHECKS & (REQUESTS | CONNECTIONS)
    assert not REQUESTS & CONNECTIONS
    assert set(Event) - CHECKS - REQUESTS - CONNECTIONS == {Event.TUNNEL, Event.DNS, Event.FAULT, Event.POLICY}
