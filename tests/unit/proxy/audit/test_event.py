from __future__ import annotations

from agent_sandbox.proxy.audit.event import Event


def test_the_names_in_the_log_stay_as_they_are() -> None:
    assert sorted(Event) == [
        *("connect", "dns", "fault", "health", "malformed", "policy"),
        *("raw_tunnel", "request", "start", "tls", "tunnel", "websocket"),
    ]
