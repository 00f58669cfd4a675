import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.rule_set import Budgeted
from agent_sandbox.policy.http.body_size import Budget, Rate
from agent_sandbox.proxy.exchange.exchange import Exchange, OverBudget, open_exchange, spend_freely
from agent_sandbox.proxy.exchange.quotas import FORGOTTEN_SECONDS, BodyQuota, Budgets, boot
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead
from table_tests import each


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def exchange() -> Exchange:
    head = RequestHead(b"POST", b"/graphql", b"HTTP/1.1", ())
    return open_exchange(head, Tunnel(client="", carries=Carries.PROXY), started=0.0)


def test_limits_the_number_of_held_bodies() -> None:
    holding = BodyQuota(Limits(bodies_held=2), clock=Clock())
    first, second, third = exchange(), exchange(), exchange()
    assert [holding.admits(one) for one in (first, second, third)] == [True, True, False]
    assert [one.held for one in (first, second, third)] == [True, True, False]


def test_a_body_that_is_no_longer_held_frees_its_place() -> None:
    holding = BodyQuota(Limits(bodies_held=1), clock=Clock())
    first = exchange()
    assert holding.admits(first)
    first.held = False
    assert holding.admits(exchange())


def test_a_body_that_is_never_released_frees_its_place_after_a_time() -> None:
    clock = Clock()
    holding = BodyQuota(Limits(bodies_held=1), clock=clock)
    assert holding.admits(exchange())
    clock.now = FORGOTTEN_SECONDS - 1
    assert not holding.admits(exchange())
    clock.now = FORGOTTEN_SECONDS
    assert holding.admits(exchange())


ORIGIN = Origin(file="policy.yaml", line=3, layer="policy.yaml")
MINUTE = Budgeted("a.test", ORIGIN, Budget(requests=Rate(3, 60), upload=Rate(2_048, 60)))
DAY = Budgeted("box", replace(ORIGIN, line=9), Budget(requests=Rate(4, 86_400)))
USED_UP = "the budget at policy.yaml:3 is used up: 3 requests per min; it resets at 1970-01-01 00:01:40 UTC"


def said(over: OverBudget | None) -> str:
    return over.reason if over else ""


def budgets(path: Path, clock: Clock, *, boot: str = "b") -> Budgets:
    return Budgets(path / "budgets.json", clock=clock, boot=boot, now=lambda: 50.0)


def test_a_used_up_budget_refuses_requests_until_its_period_ends(tmp_path: Path) -> None:
    clock = Clock()
    clock.now = 90.0
    spend = budgets(tmp_path, clock).spender([MINUTE])
    assert [spend("requests", 1) for _ in range(3)] == [None, None, None]
    clock.now = 100.0
    assert spend("requests", 1) == OverBudget(USED_UP, 50)
    clock.now = 149.9
    assert spend("requests", 1) == OverBudget(USED_UP.replace("01:40", "00:50"), 1)
    clock.now = 150.0
    assert spend("requests", 1) is None


def test_an_amount_counts_against_all_budgets_or_none(tmp_path: Path) -> None:
    clock = Clock()
    subject = budgets(tmp_path, clock)
    both, one = subject.spender([DAY, MINUTE]), subject.spender([DAY])
    assert [both("requests", 1) for _ in range(3)] == [None, None, None]
    assert "policy.yaml:3" in said(both("requests", 1))
    assert one("requests", 1) is None
    assert "policy.yaml:9 is used up: 4 requests per day" in said(one("requests", 1))


def test_counts_bytes_and_ignores_kinds_without_a_limit(tmp_path: Path) -> None:
    spend = budgets(tmp_path, Clock()).spender([MINUTE])
    assert [spend("upload", size) for size in (2_000, 48, 0)] == [None, None, None]
    assert "2KiB of upload per min" in said(spend("upload", 1))
    assert spend("download", 10**12) is None
    assert budgets(tmp_path, Clock()).spender([]) is spend_freely


@each(("boot", "later", "left"), [("b", 59.0, 0), ("b", 60.0, 3), ("other", 1e9, 0), ("b", -50.0, 0)])
def test_counts_survive_a_restart_of_the_proxy_a_reboot_and_clock_changes(boot: str, later: float, left: int) -> None:
    with TemporaryDirectory() as folder:
        clock = Clock()
        clock.now = 100.0
        before = budgets(Path(folder), clock)
        for _ in range(3):
            before.spender([MINUTE])("requests", 1)
        before.write()
        clock.now += later
        spend = budgets(Path(folder), clock, boot=boot).spender([MINUTE])
        assert [spend("requests", 1) for _ in range(3)].count(None) == left


@each("content", ["", "{", "[]", '{"boot": "b"}', '{"boot": "b", "windows": {"x": 1}}', '{"boot": "b", "windows": []}'])
def test_budgets_whose_counts_cannot_be_read_count_as_used_up(content: str) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "budgets.json").write_text(content)
        clock = Clock()
        subject = budgets(Path(folder), clock)
        spend = subject.spender([MINUTE, DAY])
        assert said(spend("requests", 1)) == (
            "the budget at policy.yaml:3 counts as used up, because its use could not be read: "
            "3 requests per min; it resets at 1970-01-01 00:01:50 UTC"
        )
        clock.now = 61.0
        assert "policy.yaml:9" in said(spend("requests", 1))
        assert subject.spender([MINUTE])("requests", 1) is None
        subject.write()
        # A restart of the proxy neither ends the period nor starts a new one.
        subject = budgets(Path(folder), clock)
        spend = subject.spender([DAY])
        clock.now = 86_399.0
        assert "policy.yaml:9 counts as used up" in said(spend("requests", 1))
        clock.now = 86_401.0
        assert spend("requests", 1) is None
        subject.write()
        assert "lost" not in (Path(folder) / "budgets.json").read_text()


def test_counts_that_no_longer_matter_are_not_written(tmp_path: Path) -> None:
    clock = Clock()
    subject = budgets(tmp_path, clock)
    subject.spender([MINUTE])("requests", 1)
    subject.write()
    clock.now = 90_000.0
    subject.spender([DAY])("requests", 1)
    subject.write()
    assert json.loads((tmp_path / "budgets.json").read_text()) == {
        "boot": "b",
        "windows": {"box requests 86400": [90_000.0, 1]},
    }


def test_counts_that_cannot_be_written_are_written_later(tmp_path: Path) -> None:
    subject = Budgets(tmp_path / "no" / "budgets.json", clock=Clock())
    subject.write()
    subject.spender([MINUTE])("requests", 1)
    subject.write()
    (tmp_path / "no").mkdir()
    subject.write()
    assert (tmp_path / "no" / "budgets.json").exists()


def test_reads_the_boot_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "boot").write_text("7\n")
    monkeypatch.setattr("agent_sandbox.proxy.exchange.quotas.BOOT", tmp_path / "boot")
    assert boot() == "7"
    monkeypatch.setattr("agent_sandbox.proxy.exchange.quotas.BOOT", tmp_path / "none")
    assert boot() == ""
