import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.watch.page import today as subject
from agent_sandbox.features.watch.page.today import SLOTS, Timeline, Today
from agent_sandbox.problems import UserError

POLICY = """\
version: 1
services: [claude, github]
domains:
  - a.test
  - unused.test
allow: [GET https://b.test/x, GET https://b.test/y]
deny: [never.test]
"""
NOW = datetime(2026, 1, 2, 15, tzinfo=UTC)
START = datetime(2026, 1, 2, tzinfo=UTC)


def line(time: str, host: str, rule: str | None, decision: str = "allow", **more: object) -> dict[str, object]:
    usual = {"event": "request", "method": "GET", "path": "/", "scheme": "https", "port": 443, "bytes_in": 1000}
    return {"time": time, "decision": decision, "host": host, "rule": rule, **usual, **more}


LOG = [
    line("2026-01-01T23:00:00.000Z", "a.test", "policy.yaml:4"),
    line("2026-01-02T10:00:00.000Z", "a.test", "policy.yaml:4"),
    line("2026-01-02T10:00:01.000Z", "a.test", "policy.yaml:4", event="websocket"),
    line("2026-01-02T10:10:00.000Z", "never.test", "policy.yaml:7", "deny"),
    line("2026-01-02T11:00:00.000Z", "other.test", None, "deny"),
    line("2026-01-02T11:00:00.000Z", "api.anthropic.com", "services/claude.yaml:1", method="POST", path="/v1/messages"),
    line("2026-01-02T11:00:00.000Z", "", None, "allow", event="health"),
]


@pytest.fixture
def today(project: Path) -> Today:
    (project / ".devcontainer" / "policy.yaml").write_text(POLICY)
    records = [read_record(json.dumps(one)) for one in LOG]

    def each(take: Callable[[Record], object]) -> None:
        for record in records:
            assert record
            take(record)

    return Today(project, each, now=lambda: NOW)


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in UTC, whatever the machine says."""
    monkeypatch.setattr(Today, "_midnight", lambda self: self._now().replace(hour=0))


def test_lists_todays_busiest_hosts_by_half_hour(today: Today, monkeypatch: pytest.MonkeyPatch) -> None:
    found = today.hosts()
    rows = {total.host: (total.requests, total.denied, total.received) for total, _ in found.rows}
    assert rows == {
        "a.test": (1, 0, 2000),
        "api.anthropic.com": (1, 0, 1000),
        "never.test": (1, 1, 1000),
        "other.test": (1, 1, 1000),
    }
    slots = {total.host: slots for total, slots in found.rows}
    assert (slots["a.test"].allowed[20], sum(slots["a.test"].allowed)) == (1, 1)
    assert slots["never.test"].denied[20] == 1
    assert f"{found.times[20]:%H:%M}" == "10:00"
    monkeypatch.setattr(subject, "MOST_HOSTS", 1)
    assert (len(today.hosts().rows), today.hosts().count) == (1, 4)


def test_counts_todays_decisions_per_policy_line(today: Today) -> None:
    found = today.policy()
    assert [*found.text] == POLICY.splitlines()
    uses = {number: [(use.what, use.allowed, use.denied) for use in uses] for number, uses in found.uses.items()}
    assert uses == {
        2: [("service claude", 1, 0), ("service github", 0, 0)],
        4: [("any method a.test", 1, 0)],
        5: [("any method unused.test", 0, 0)],
        6: [("GET, HEAD https://b.test/x; GET, HEAD https://b.test/y", 0, 0)],
        7: [("any method never.test", 0, 1)],
    }
    assert [*found.others] == []


def test_counts_the_users_layer_as_a_whole(today: Today, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "agent-sandbox"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text("version: 1\ndomains: [other.test]\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (use,) = today.policy().others
    assert (use.what, use.allowed, use.denied) == ("user/policy.yaml", 0, 0)


def test_a_policy_that_cannot_be_read_is_a_problem(today: Today) -> None:
    Path(".devcontainer/policy.yaml").write_text("version: 2\n")
    with pytest.raises(UserError, match="invalid value `2`; write 1"):
        today.policy()


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
    monkeypatch.setattr(subject, "MOST_COUNTED", 2)
    timeline = Timeline(START)
    for number in range(9):
        timeline.add(made("2026-01-02T00:00:00.000Z", host=f"h{number % 3}.test"))
    assert {name: sum(slots.allowed) for name, slots in timeline.hosts.items()} == {"h0.test": 3, "h1.test": 3}
