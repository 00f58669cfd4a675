import pytest
from msgspec import to_builtins

from agent_sandbox.features.traffic import totals as subject
from agent_sandbox.features.traffic.record import read_record
from agent_sandbox.features.traffic.totals import NO_HOST, OTHERS, By, Totals
from log_lines import denied
from table_tests import each


def totals(*lines: str) -> Totals:
    found = Totals()
    for line in lines:
        record = read_record(line)
        assert record is not None
        found.add(record)
    return found


FOUND = totals(
    denied("GET https://a.test/", decision="allow", bytes_out=1, bytes_in=50),
    denied("GET https://a.test/", decision="allow", bytes_out=1, bytes_in=50, at="11:00:00"),
    denied("GET https://a.test/", decision="allow"),
    denied("GET https://b.test/"),
    denied("GET https://b.test/"),
    denied("POST https://c.test/", decision="allow", bytes_out=100),
    denied("GET https://c.test/", decision="allow", event="websocket", bytes_in=300),
    denied("GET https://x/", host="", event="malformed"),
)


@each(
    ("by", "expected"),
    [
        (By.REQUESTS, ["a.test", "b.test", NO_HOST, "c.test"]),
        (By.DENIED, ["b.test", NO_HOST, "a.test", "c.test"]),
        (By.SENT, ["c.test", "a.test", "b.test", NO_HOST]),
        (By.RECEIVED, ["c.test", "a.test", "b.test", NO_HOST]),
    ],
)
def test_sorts_hosts_by_each_total(by: By, expected: list[str]) -> None:
    assert [one.host for one in FOUND.top(by)] == expected


def test_the_end_of_a_websocket_adds_bytes_and_no_request() -> None:
    (found,) = (one for one in FOUND.top(By.SENT) if one.host == "c.test")
    assert to_builtins(found) == {
        "host": "c.test",
        "requests": 1,
        "denied": 0,
        "sent": 100,
        "received": 300,
        "last": "2026-01-02T10:00:00.000Z",
    }


def test_hosts_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_HOSTS", 2)
    found = totals(*(denied(f"GET https://{name}.test/") for name in "abcda"))
    assert {one.host: one.requests for one in found.top(By.REQUESTS)} == {"a.test": 2, OTHERS: 2, "b.test": 1}
