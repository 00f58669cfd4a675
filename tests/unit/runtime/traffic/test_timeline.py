import json
from datetime import UTC, datetime

import pytest

from agent_sandbox.runtime.traffic import timeline as subject
from agent_sandbox.runtime.traffic.record import Record, read_record
from agent_sandbox.runtime.traffic.timeline import SLOTS, Timeline

START = datetime(2026, 1, 2, tzinfo=UTC)


def made(time: str, host: str = "a.test", decision: str = "allow") -> Record:
    found = read_record(json.dumps({"time": time, "event": "request", "decision": decision, "host": host}))
    assert found
    return found


def test_counts_by_host_and_half_hour() -> None:
    timeline = Timeline(START)
    for time in ("2026-01-02T00:00:00.000Z", "2026-01-02T00:29:59.999Z", "2026-01-02T23:59:59.999Z"):
        timeline.add(made(time))
    timeline.add(made("2026-01-02T00:30:00.000Z", decision="deny"))
    timeline.add(made("2026-01-02T00:30:00.000Z", host=""))
    slots = timeline.hosts["a.test"]
    assert (slots.allowed[0], slots.allowed[-1], sum(slots.allowed)) == (2, 1, 3)
    assert (slots.denied[1], sum(slots.denied)) == (1, 1)
    assert [*timeline.hosts] == ["a.test", "(no host)"]
    assert timeline.times()[1] == datetime(2026, 1, 2, 0, 30, tzinfo=UTC)
    assert len(timeline.times()) == SLOTS


def test_leaves_out_records_outside_the_day_and_without_a_time() -> None:
    timeline = Timeline(START)
    for time in ("2026-01-01T23:59:59.999Z", "2026-01-03T00:00:00.000Z", "never", ""):
        timeline.add(made(time))
    assert timeline.hosts == {}


def test_limits_the_number_of_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_HOSTS", 2)
    timeline = Timeline(START)
    for number in range(9):
        timeline.add(made("2026-01-02T00:00:00.000Z", host=f"h{number % 3}.test"))
    assert {name: sum(slots.allowed) for name, slots in timeline.hosts.items()} == {"h0.test": 3, "h1.test": 3}
