from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent_sandbox.policy.hostservice import HostService
from agent_sandbox.proxy import dialler as subject
from agent_sandbox.proxy.dialler import DialError, Dialler, NotReached, Refused, Streams
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.overrides import Override

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMITS = Limits(resolve_seconds=0.01, connect_seconds=0.01)


class World:
    """Names, and what happens when an address is dialled."""

    def __init__(self, *answers: Sequence[str] | Exception, slow: bool = False, dead: Sequence[str] = ()) -> None:
        self.answers = list(answers)
        self.slow = slow
        self.dead = dead
        self.asked: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    async def resolve(self, name: str, _: int) -> list[str]:
        self.asked.append(name)
        if self.slow:
            await asyncio.sleep(1)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    async def connect(self, address: str, port: int) -> Streams:
        self.dialled.append((address, port))
        if address in self.dead:
            raise ConnectionRefusedError(111, "Connection refused")
        if address == "203.0.113.99":
            await asyncio.sleep(1)
        return cast("Streams", (address, port))

    def dialler(self, *overrides: Override, place: HostService | None = None) -> Dialler:
        def place_of(host: str, port: int) -> HostService | None:
            return place if place and (host, port) == (place.name, place.port) else None

        return Dialler(
            limits=LIMITS, overrides=overrides, place_of=place_of, resolve=self.resolve, connect=self.connect
        )


async def failure(world: World, host: str = "a.test") -> tuple[type[NotReached], str]:
    with pytest.raises(DialError) as caught:
        await world.dialler().dial(host, 443)
    return type(caught.value.why), str(caught.value.why)


async def test_the_address_that_was_checked_is_the_one_that_is_dialled() -> None:
    world = World(["203.0.113.1", "203.0.113.2"])
    got: Any = await world.dialler().dial("a.test", 443)
    assert got == ("203.0.113.1", 443)
    assert world.dialled == [("203.0.113.1", 443)]


async def test_the_next_address_is_tried_when_one_is_dead() -> None:
    world = World(["203.0.113.1", "203.0.113.2"], dead=["203.0.113.1"])
    await world.dialler().dial("a.test", 443)
    assert world.dialled == [("203.0.113.1", 443), ("203.0.113.2", 443)]


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["203.0.113.1", "169.254.169.254"], ["::1", "203.0.113.1"]])
async def test_one_inner_address_among_the_answers_refuses_them_all(answer: list[str]) -> None:
    world = World(answer)
    kind, why = await failure(world)
    assert kind is Refused
    assert why.startswith("a.test leads to ")
    assert world.dialled == []


async def test_a_name_that_changes_its_address_is_checked_each_time() -> None:
    world = World(["203.0.113.1"], ["127.0.0.1"])
    await world.dialler().dial("a.test", 443)
    assert await failure(world) == (Refused, "a.test leads to 127.0.0.1, a loopback address")
    assert world.dialled == [("203.0.113.1", 443)]


async def test_an_override_is_dialled_unchecked_and_for_its_port_alone() -> None:
    world = World(["127.0.0.1"])
    dialler = world.dialler(Override(host="a.test", port=443, address="127.0.0.1", to=8443))
    await dialler.dial("a.test", 443)
    with pytest.raises(DialError):
        await dialler.dial("a.test", 80)
    assert world.dialled == [("127.0.0.1", 8443)]


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (World(slow=True), "a.test was not resolved within 0.01 s"),
        (World(socket.gaierror(-2, "Name or service not known")), "a.test does not resolve: Name or service not known"),
        (World(UnicodeError("label too long")), "a.test does not resolve: not a name"),
        (World([]), "a.test has no address"),
        (World(["203.0.113.99"]), "a.test:443 did not answer in 0.01 s"),
        (World(["203.0.113.1"], dead=["203.0.113.1"]), "a.test:443 cannot be reached: Connection refused"),
    ],
)
async def test_a_failure_says_what_failed(world: World, why: str) -> None:
    assert await failure(world) == (NotReached, why)


async def test_the_systems_resolver_is_asked_for_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> list[tuple[Any, ...]]:
        return [(0, 0, 0, "", ("203.0.113.1", 443)), (0, 0, 0, "", ("203.0.113.1", 443)), (0, 0, 0, "", ("::1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await subject.resolve("a.test", 443) == ["203.0.113.1", "::1"]


async def test_a_connection_is_opened_to_the_literal_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_connection(address: str, port: int) -> tuple[str, int]:
        return address, port

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    got: Any = await subject.connect("203.0.113.1", 443)
    assert got == ("203.0.113.1", 443)


OLLAMA = HostService(name="ollama", to="host", port=11434)
TRACKER = HostService(name="tracker.internal", to="tracker.internal", port=443)
LAB = HostService(name="10.20.0.7", to="10.20.0.7", port=9090, network=ip_network("10.20.0.0/24"))


@pytest.mark.parametrize(
    ("place", "asked", "address"),
    [
        (OLLAMA, "host.docker.internal", "172.17.0.1"),
        (TRACKER, "tracker.internal", "10.1.2.3"),
        (TRACKER, "tracker.internal", "fd12::1"),
        (TRACKER, "tracker.internal", "100.64.0.9"),
        (TRACKER, "tracker.internal", "203.0.113.9"),
        (LAB, "10.20.0.7", "10.20.0.7"),
    ],
)
async def test_a_private_place_is_reached_by_its_name_and_port(place: HostService, asked: str, address: str) -> None:
    world = World([address])
    await world.dialler(place=place).dial(place.name, place.port)
    assert (world.asked, world.dialled) == ([asked], [(address, place.port)])


@pytest.mark.parametrize("place", [OLLAMA, TRACKER])
@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["10.1.2.3", "127.0.0.1"],
        ["169.254.169.254"],
        ["100.100.100.200"],
        ["fd00:ec2::254"],
        ["::1"],
        ["fe80::1%eth0"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::a00:1"],
        ["0.0.0.0"],  # noqa: S104 - an answer of a name server, not an address to listen at
        ["224.0.0.1"],
    ],
)
async def test_no_place_lifts_what_nothing_may_reach(place: HostService, answer: list[str]) -> None:
    world = World(answer)
    with pytest.raises(DialError) as caught:
        await world.dialler(place=place).dial(place.name, place.port)
    assert isinstance(caught.value.why, Refused)
    assert world.dialled == []


@pytest.mark.parametrize(("host", "port"), [("tracker.internal", 80), ("other.internal", 443), ("10.1.2.3", 443)])
async def test_a_place_lifts_its_own_name_and_port_alone(host: str, port: int) -> None:
    world = World(["10.1.2.3"])
    with pytest.raises(DialError, match="a private address"):
        await world.dialler(place=TRACKER).dial(host, port)
    assert world.dialled == []


async def test_an_address_outside_the_network_that_was_named_stays_closed() -> None:
    world = World(["10.20.1.7"])
    with pytest.raises(DialError, match="a private address"):
        await world.dialler(place=LAB).dial(LAB.name, LAB.port)
    assert world.dialled == []


async def test_a_place_that_changes_its_address_is_checked_each_time() -> None:
    world = World(["10.1.2.3"], ["169.254.169.254"])
    dialler = world.dialler(place=TRACKER)
    await dialler.dial(TRACKER.name, TRACKER.port)
    with pytest.raises(DialError, match="a link-local address"):
        await dialler.dial(TRACKER.name, TRACKER.port)
    assert world.dialled == [("10.1.2.3", 443)]
