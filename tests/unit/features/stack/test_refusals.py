import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.features.stack.refusals import AT_PROXY, Refusal, Refusals, parse_refusals, read_refusals
from fake_docker import FakeDocker
from fake_refusals import refusals_said
from table_tests import each

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
FIREWALL = Container(id="f1", service="firewall", image="x", state="running")


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, 2, hour, minute, tzinfo=UTC)


def parsed(**given: Any) -> Refusals:  # noqa: ANN401 - whatever nft may print
    return parse_refusals(refusals_said(**given), now=NOW)


def test_each_destination_has_a_count_and_the_time_of_its_last_packet() -> None:
    places = [(["tcp", "10.0.0.2", 22], 86_400 - 60, 3), (["udp", "192.0.2.1", 53], 86_400 - 3600, 1)]
    assert parsed(places=places, proxy="10.0.0.2", ipv6="7") == Refusals(
        counted=True,
        ipv6=7,
        last=(
            Refusal(time=at(11), protocol="udp", address="192.0.2.1", port=53, count=1),
            Refusal(time=at(11, 59), protocol="tcp", address="10.0.0.2", port=22, count=3, at_proxy=True),
        ),
    )


def test_counts_refusals_beyond_the_set_of_destinations_by_address_and_by_protocol() -> None:
    found = parsed(addresses=[(["tcp", "192.0.2.1"], 86_400, 9)], protocols=[("udp", 86_400, 10_000)])
    assert found.total == 10_009
    assert [one.as_text(shape="%H:%M", zone=UTC) for one in found.last] == [
        "12:00  tcp 192.0.2.1 on other ports  9 times",
        "12:00  udp to other addresses  10000 times",
    ]


def test_formats_a_refusal_as_text_and_as_json() -> None:
    at_proxy = Refusal(time=at(11), protocol="tcp", address="10.0.0.2", port=22, count=1, at_proxy=True)
    ping = Refusal(time=at(11), protocol="icmp", address="192.0.2.1", count=2)
    assert at_proxy.as_text(shape="%H:%M", zone=UTC) == f"11:00  tcp 10.0.0.2:22  once  ({AT_PROXY})"
    assert ping.as_text(shape="%H:%M", zone=UTC) == "11:00  icmp 192.0.2.1  2 times"
    assert ping.as_json() == {
        "time": "2026-03-02T11:00:00Z", "protocol": "icmp", "address": "192.0.2.1", "port": None, "count": 2,
        "at_start": False,
    }  # fmt: skip


def test_nothing_is_counted_before_the_start_checks_have_ended() -> None:
    assert parsed(started=False) == Refusals(counted=False)


NEVER_PRINTED = [
    "",
    "{}",
    "[]\n10.0.0.2 1",
    "[" * 100_000,
    json.dumps({"nftables": [{"set": {"name": "places"}}]}) + "\n10.0.0.2 1\n",
    refusals_said(places=[(["\x1b[2J", "10.0.0.2", 22], 1, 1)]),
    refusals_said(places=[(["tcp", "\x1b[2J", 22], 1, 1)]),
    refusals_said(places=[(["tcp", "10.0.0.2", "\x1b[2J"], 1, 1)]),
    refusals_said(protocols=[("tcp\n00:00  udp", 1, 1)]),
    refusals_said(ipv6="x"),
    refusals_said().partition("\n")[0],
]


@each("text", NEVER_PRINTED)
def test_invalid_nft_output_counts_nothing(text: str) -> None:
    assert parse_refusals(text, now=NOW) == Refusals()


@given(st.text())
def test_parses_any_text_without_an_error(text: str) -> None:
    assert parse_refusals(text, now=NOW) == Refusals()


def test_reads_refusals_only_from_a_running_firewall(docker: FakeDocker) -> None:
    stopped = Container(id="f1", service="firewall", image="x", state="exited")
    assert read_refusals(DRIVER, [stopped], clock=lambda: NOW) is None
    docker.says("exec f1 /usr/local/lib/agent-sandbox/refusals", out=refusals_said())
    found = read_refusals(DRIVER, [FIREWALL], clock=lambda: NOW)
    assert found == Refusals(counted=True)


def test_the_times_are_before_the_answer_of_a_slow_engine(docker: FakeDocker, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    docker.says("exec f1", script=f": >{asked}", out=refusals_said(places=[(["tcp", "10.0.0.2", 22], 86_400, 1)]))

    def clock() -> datetime:
        assert asked.exists()
        return NOW

    found = read_refusals(DRIVER, [FIREWALL], clock=clock)
    assert found
    assert [one.time for one in found.last] == [NOW]


@pytest.mark.parametrize("code", [1, 126, 127])
def test_a_firewall_that_cannot_list_refusals_counts_nothing(docker: FakeDocker, code: int) -> None:
    docker.says("exec f1", out=refusals_said(), code=code)
    assert read_refusals(DRIVER, [FIREWALL], clock=lambda: NOW) == Refusals(counted=False)


def read(docker: FakeDocker, *, firewall: datetime | None, agent: datetime | None) -> list[bool]:
    """Return which of two refusals, of 11:00 and 11:59, count as start checks."""
    places = [(["tcp", "198.51.100.1", 1], 86_400 - 3600, 1), (["tcp", "198.51.100.1", 2], 86_400 - 60, 1)]
    docker.says("exec f1", out=refusals_said(places=places))
    found = [replace(FIREWALL, started=firewall), replace(FIREWALL, id="a1", service="agent", started=agent)]
    refusals = read_refusals(DRIVER, found, clock=lambda: NOW)
    assert refusals is not None
    assert refusals.total == len(refusals.agents)
    return [one.at_start for one in refusals.last]


@pytest.mark.parametrize(
    ("firewall", "agent", "expected"),
    [
        (at(10), at(11, 59), [False, True]),
        (at(10), at(11), [True, False]),
        # A container starts within a second, and the kernel's times have only whole ones.
        (at(10), at(11, 59) + timedelta(seconds=0.9), [False, True]),
        (at(10), at(11, 59) + timedelta(seconds=1.1), [False, False]),
        (at(11, 59), at(11, 59), [False, False]),
        (at(10), at(10), [False, False]),
        (None, at(11), [False, False]),
        (at(10), None, [False, False]),
    ],
)
def test_marks_refusals_of_the_start_checks_of_a_recreated_agent_container(
    docker: FakeDocker, firewall: datetime | None, agent: datetime | None, expected: list[bool]
) -> None:
    assert read(docker, firewall=firewall, agent=agent) == expected


def test_counts_other_destinations_during_the_start_checks_as_the_agents(docker: FakeDocker) -> None:
    places = [(["tcp", "198.51.100.1", 443], 86_400, 1), (["tcp", "10.0.0.2", 22], 86_400, 1)]
    places += [(["tcp", "203.0.113.9", 22], 86_400, 500)]
    said = refusals_said(places=places, addresses=[(["udp", "192.0.2.7"], 86_400, 9)], protocols=[("udp", 86_400, 7)])
    docker.says("exec f1", out=said)
    found = [replace(FIREWALL, started=at(10)), replace(FIREWALL, id="a1", service="agent", started=NOW)]
    refusals = read_refusals(DRIVER, found, clock=lambda: NOW)
    assert refusals is not None
    assert [one.address for one in refusals.agents] == ["203.0.113.9", "192.0.2.7", ""]
    assert refusals.total == 516


def test_start_check_is_listed_with_a_note() -> None:
    check = Refusal(time=at(11), protocol="tcp", address="10.0.0.2", port=22, count=1, at_proxy=True, at_start=True)
    expected = "11:00  tcp 10.0.0.2:22  once  (when the agent container started: the start checks try it)"
    assert check.as_text(shape="%H:%M", zone=UTC) == expected
