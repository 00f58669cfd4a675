import json
from typing import Any

from agent_sandbox.features.proxy.reports import Grant, State
from agent_sandbox.features.traffic.metrics import MOST_HOSTS, Metrics
from agent_sandbox.features.traffic.record import Record, read_record
from log_lines import denied


def record(asked: str, **others: Any) -> Record:  # noqa: ANN401 - the fields of a line
    found = read_record(denied(asked, **others))
    assert found
    return found


def shown(metrics: Metrics) -> dict[str, float]:
    """Return all values except the histogram's buckets, by name without the prefix."""
    lines = (
        line for line in metrics.text().decode().splitlines() if not line.startswith("#") and "_bucket" not in line
    )
    values = (line.rpartition(" ") for line in lines)
    return {name.removeprefix("agent_sandbox_"): float(value) for name, _, value in values}


def test_requests_are_counted_by_decision_and_cause() -> None:
    metrics = Metrics("app-1")
    asked = "GET https://a.test/secret-path"
    metrics.add(record(asked, decision="allow", cause="", bytes_in=100, bytes_out=7, duration_ms=250.0))
    metrics.add(record(asked, decision="allow", cause="", event="websocket", bytes_in=1, bytes_out=1))
    metrics.add(record(asked, event="connect", cause="host"))
    metrics.add(record(asked, event="dns", cause="made-up", decision="made-up"))
    metrics.add(record(asked, event="grant", decision="allow"))
    metrics.add(record(asked, event="grant", method=""))  # the end of a grant
    for ignored in ("health", "start", "policy", "fault"):
        metrics.add(record(asked, event=ignored))
    assert shown(metrics) == {
        'requests_total{cause="",decision="allow",sandbox="app-1"}': 1,
        'requests_total{cause="host",decision="deny",sandbox="app-1"}': 1,
        'requests_total{cause="other",decision="other",sandbox="app-1"}': 1,
        'host_requests_total{host="a.test",sandbox="app-1"}': 1,
        'sent_bytes_total{host="a.test",sandbox="app-1"}': 8,
        'received_bytes_total{host="a.test",sandbox="app-1"}': 101,
        'answers_total{decision="allow",sandbox="app-1"}': 1,
        'missed_records_total{sandbox="app-1"}': 0,
        'request_seconds_count{sandbox="app-1"}': 1,
        'request_seconds_sum{sandbox="app-1"}': 0.25,
    }
    assert b"secret-path" not in metrics.text()


def test_limits_the_number_of_labels() -> None:
    metrics = Metrics("app-1")
    for number in range(MOST_HOSTS + 100):
        metrics.add(record(f"GET https://denied-{number}.test/", method=f"M{number}"))
        metrics.add(record(f"GET https://allowed-{number}.test/", decision="allow", cause=""))
    found = shown(metrics)
    assert len(found) == 3 * (MOST_HOSTS + 1) + 5
    assert found['host_requests_total{host="other",sandbox="app-1"}'] == 100
    assert b"denied-" not in metrics.text()


def test_escapes_labels() -> None:
    metrics = Metrics("app-1")
    line = json.loads(denied("GET https://a.test/", decision="allow", cause=""))
    found = read_record(json.dumps({**line, "host": 'a"} 1\nb{c="\\'}))
    assert found
    metrics.add(found)
    assert b'host_requests_total{host="a\\"} 1\\nb{c=\\"\\\\",sandbox="app-1"} 1.0\n' in metrics.text()


def test_open_grants_count_as_zero_after_the_connection_ends() -> None:
    metrics = Metrics("app-1")
    metrics.state(State(grants=(Grant(id=1, rule="x", who="ana", seconds_left=None),)))
    metrics.missed(3)
    names = ("questions", "grants", "connected", "missed_records_total")
    assert [shown(metrics)[f'{name}{{sandbox="app-1"}}'] for name in names] == [0, 1, 1, 3]
    metrics.connected(connected=False)
    assert [shown(metrics)[f'{name}{{sandbox="app-1"}}'] for name in names] == [0, 0, 0, 3]
