from __future__ import annotations

from agent_sandbox.proxy.net.fair_scheduler import FairScheduler


def test_expensive_connections_wait_one_after_another() -> None:
    now = 10.0
    turns = FairScheduler(lambda: now)
    assert [turns.wait(took) for took in (0.05, 1.0, 0.5, 0.01)] == [0.0, 1.0, 2.5, 0.0]
    now = 11.0
    assert turns.wait(0.25) == 2.25
    now = 20.0
    assert turns.wait(0.25) == 0.25
