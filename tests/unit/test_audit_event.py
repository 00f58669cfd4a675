from agent_sandbox.audit_event import CHECKS, CONNECTIONS, REQUESTS, Event


def test_event_sets_are_disjoint_and_five_events_are_in_none() -> None:
    assert not CHECKS & (REQUESTS | CONNECTIONS)
    assert not REQUESTS & CONNECTIONS
    assert set(Event) - CHECKS - REQUESTS - CONNECTIONS == {
        Event.TUNNEL,
        Event.DNS,
        Event.FAULT,
        Event.POLICY,
        Event.GRANT,
    }
