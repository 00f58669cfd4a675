import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from ipaddress import ip_network
from typing import Any, cast, override

import pytest
from msgspec.structs import replace

from agent_sandbox.policy.match.host_service import HostService
from agent_sandbox.policy.match.upstream import UpstreamProxy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.upstream import dialler as subject
from agent_sandbox.proxy.upstream.dialler import DialError, Dialler, LoopGuard, NotReached, Refused
from agent_sandbox.proxy.upstream.overrides import Override
from agent_sandbox.proxy.upstream.proxy_connect import ProxyEndpoint, Streams
from memory_streams import MemoryTransport, memory_streams

LIMITS = Limits(resolve_seconds=0.01, connect_seconds=0.01)


class World:
    """A fake resolver and network."""

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
        def host_service_of(host: str, port: int) -> HostService | None:
            return place if place and (host, port) == (place.name, place.port) else None

        return Dialler(
            limits=LIMITS,
            overrides=overrides,
            host_service_of=host_service_of,
            resolve=self.resolve,
            connect=self.connect,
        )


async def failure(world: World, host: str = "a.test") -> tuple[type[NotReached], str]:
    with pytest.raises(DialError) as caught:
        await world.dialler().dial(host, 443)
    return type(caught.value.why), str(caught.value.why)


async def test_tries_the_next_address_if_one_is_unreachable() -> None:
    world = World(["203.0.113.1", "203.0.113.2"], dead=["203.0.113.1"])
    await world.dialler().dial("a.test", 443)
    assert world.dialled == [("203.0.113.1", 443), ("203.0.113.2", 443)]


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["203.0.113.1", "169.254.169.254"], ["::1", "203.0.113.1"]])
async def test_refuses_all_addresses_of_a_name_if_one_is_not_public(answer: list[str]) -> None:
    world = World(answer)
    kind, why = await failure(world)
    assert kind is Refused
    assert why.startswith("a.test resolves to ")
    assert world.dialled == []


async def test_checks_the_addresses_of_a_name_on_each_connection() -> None:
    world = World(["203.0.113.1"], ["127.0.0.1"])
    await world.dialler().dial("a.test", 443)
    assert await failure(world) == (Refused, "a.test resolves to 127.0.0.1, a loopback address")
    assert world.dialled == [("203.0.113.1", 443)]


async def test_an_override_applies_without_checks_and_only_to_its_port() -> None:
    world = World(["127.0.0.1"])
    dialler = world.dialler(Override(host="a.test", port=443, address="127.0.0.1", to=8443))
    await dialler.dial("a.test", 443)
    with pytest.raises(DialError):
        await dialler.dial("a.test", 80)
    assert world.dialled == [("127.0.0.1", 8443)]


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (World(slow=True), "a.test did not resolve within 0.01 s"),
        (World(socket.gaierror(-2, "Name or service not known")), "a.test does not resolve: Name or service not known"),
        (World(UnicodeError("label too long")), "a.test does not resolve: not a valid name"),
        (World([]), "a.test has no address"),
        (World(["203.0.113.99"]), "a.test:443 did not answer within 0.01 s"),
        (World(["203.0.113.1"], dead=["203.0.113.1"]), "a.test:443 cannot be reached: Connection refused"),
    ],
)
async def test_a_failure_names_its_cause(world: World, why: str) -> None:
    assert await failure(world) == (NotReached, why)


async def test_resolve_returns_each_address_of_the_systems_resolver_once(monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_connects_to_a_host_service_by_its_name_and_port(place: HostService, asked: str, address: str) -> None:
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
async def test_a_host_service_cannot_reach_forbidden_addresses(place: HostService, answer: list[str]) -> None:
    world = World(answer)
    with pytest.raises(DialError) as caught:
        await world.dialler(place=place).dial(place.name, place.port)
    assert isinstance(caught.value.why, Refused)
    assert world.dialled == []


@pytest.mark.parametrize(("host", "port"), [("tracker.internal", 80), ("other.internal", 443), ("10.1.2.3", 443)])
async def test_a_host_service_allows_only_its_own_name_and_port(host: str, port: int) -> None:
    world = World(["10.1.2.3"])
    with pytest.raises(DialError, match="a private address"):
        await world.dialler(place=TRACKER).dial(host, port)
    assert world.dialled == []


async def test_refuses_an_address_outside_the_network_of_a_host_service() -> None:
    world = World(["10.20.1.7"])
    with pytest.raises(DialError, match="a private address"):
        await world.dialler(place=LAB).dial(LAB.name, LAB.port)
    assert world.dialled == []


async def test_refuses_a_host_service_that_leads_to_the_proxy_itself() -> None:
    world = World(["10.1.2.3"], ["10.1.2.3"])

    def host_service_of(_: str, port: int) -> HostService:
        return HostService(name="loop", to="loop.internal", port=port)

    dialler = Dialler(
        limits=LIMITS,
        host_service_of=host_service_of,
        is_itself=lambda address, port: (address, port) == ("10.1.2.3", 80),
        resolve=world.resolve,
        connect=world.connect,
    )
    with pytest.raises(DialError, match=r"^loop resolves to 10\.1\.2\.3, where port 80 is the proxy itself$") as caught:
        await dialler.dial("loop", 80)
    assert isinstance(caught.value.why, Refused)
    await dialler.dial("loop", 81)
    assert world.dialled == [("10.1.2.3", 81)]


PROXY = UpstreamProxy(tls=False, host="proxy.corp.example", port=3128)
QUESTION = b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"


class Company(World):
    """A network with an upstream proxy: its answer, and what it received."""

    def __init__(self, *answers: Sequence[str] | Exception, says: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> None:
        super().__init__(*answers)
        self.says = says
        self.transport: MemoryTransport | None = None

    @override
    async def connect(self, address: str, port: int) -> Streams:
        await super().connect(address, port)
        reader, writer, self.transport = memory_streams()
        reader.feed_data(self.says)
        return reader, writer

    def behind(
        self, *overrides: Override, proxy: UpstreamProxy = PROXY, credentials: Callable[[], str] = str
    ) -> Dialler:
        hop = ProxyEndpoint(proxy=proxy, credentials=credentials, trust=ssl.create_default_context)
        return Dialler(
            limits=Limits(resolve_seconds=0.01, connect_seconds=0.01, hint_seconds=0.01),
            overrides=overrides,
            host_service_of=lambda host, _: TRACKER if host == TRACKER.name else None,
            upstream_proxy_of=lambda host: hop if host != "near.test" else None,
            resolve=self.resolve,
            connect=self.connect,
        )

    @property
    def heard(self) -> bytes:
        return self.transport.written if self.transport else b""


UNKNOWN = socket.gaierror(-2, "Name or service not known")


@pytest.mark.parametrize("hint", [["203.0.113.5"], UNKNOWN])
@pytest.mark.parametrize("where", ["10.9.9.9", "203.0.113.9"])
async def test_sends_the_host_name_to_the_upstream_proxy_even_if_it_does_not_resolve(
    hint: list[str] | Exception, where: str
) -> None:
    company = Company(hint, [where])
    reader, _ = await company.behind().dial("a.test", 443)
    assert (company.asked, company.dialled) == (["a.test", "proxy.corp.example"], [(where, 3128)])
    assert (company.heard, bytes(reader._buffer)) == (QUESTION, b"")  # type: ignore[attr-defined]


async def test_continues_with_the_upstream_proxy_if_the_host_resolves_too_slowly() -> None:
    company = Company(["10.9.9.9"])
    dialler = company.behind()
    company.slow = True
    with pytest.raises(DialError, match=r"^the upstream proxy did not resolve within 0\.01 s$"):
        await dialler.dial("a.test", 443)
    assert company.asked == ["a.test", "proxy.corp.example"]


@pytest.mark.parametrize(
    ("host", "answers", "why"),
    [
        ("a.test", [["10.1.2.3"]], "a.test resolves to 10.1.2.3, a private address"),
        ("a.test", [["203.0.113.5", "169.254.169.254"]], "a.test resolves to 169.254.169.254, a link-local address"),
        ("10.9.9.9", [], "10.9.9.9 is not a public address (private)"),
        ("::1", [], "::1 is not a public address (unspecified, loopback or v4-compatible)"),
        ("metadata.google.internal", [], "metadata.google.internal can only be a private host"),
        ("intranet", [], "intranet can only be a private host"),
    ],
)
async def test_does_not_ask_the_upstream_proxy_for_private_hosts(host: str, answers: list[list[str]], why: str) -> None:
    company = Company(*answers)
    with pytest.raises(DialError) as caught:
        await company.behind().dial(host, 443)
    assert (type(caught.value.why), str(caught.value)) == (Refused, why)
    assert company.dialled == []


async def test_connects_directly_to_host_services_and_hosts_without_an_upstream_proxy() -> None:
    company = Company(["10.1.2.3"], ["203.0.113.5"])
    await company.behind().dial(TRACKER.name, TRACKER.port)
    await company.behind().dial("near.test", 443)
    assert (company.dialled, company.heard) == ([("10.1.2.3", 443), ("203.0.113.5", 443)], b"")


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "100.100.100.200"])
async def test_refuses_an_upstream_proxy_at_a_forbidden_address(address: str) -> None:
    company = Company(["203.0.113.5"], [address])
    with pytest.raises(DialError, match=r"^the upstream proxy resolves to ") as caught:
        await company.behind().dial("a.test", 443)
    assert (type(caught.value.why), company.dialled) == (Refused, [])


async def test_the_upstream_proxy_can_be_on_the_docker_host() -> None:
    company = Company(["203.0.113.5"], ["172.17.0.1"])
    await company.behind(proxy=replace(PROXY, host="host")).dial("a.test", 443)
    assert (company.asked, company.dialled) == (["a.test", "host.docker.internal"], [("172.17.0.1", 3128)])


async def test_an_override_applies_to_the_upstream_proxy() -> None:
    company = Company(UNKNOWN)
    override = Override(host=PROXY.host, port=PROXY.port, address="127.0.0.1", to=4128)
    await company.behind(override).dial("a.test", 443)
    assert (company.dialled, company.heard) == ([("127.0.0.1", 4128)], QUESTION)


async def test_reports_a_denial_by_the_upstream_proxy_and_aborts_the_connection() -> None:
    company = Company(UNKNOWN, ["10.9.9.9"], says=b"HTTP/1.1 403 No\r\n\r\n")
    with pytest.raises(DialError, match=r"^the upstream proxy denies a\.test:443 \(403\)$") as caught:
        await company.behind().dial("a.test", 443)
    assert company.transport
    assert (type(caught.value.why), company.transport.ended) == (NotReached, "aborted")


async def test_sends_nothing_to_the_upstream_proxy_if_its_credentials_are_unreadable() -> None:
    def unreadable() -> str:
        raise UserError([Problem(where="upstream-auth", what="cannot be read: Permission denied")])

    company = Company(UNKNOWN, ["10.9.9.9"])
    why = "the upstream proxy was not used: upstream-auth: cannot be read: Permission denied"
    with pytest.raises(DialError) as caught:
        await company.behind(credentials=unreadable).dial("a.test", 443)
    assert (str(caught.value), company.heard) == (why, b"")


async def test_tls_with_the_upstream_proxy_is_for_the_name_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, str]] = []

    async def over_tls(address: str, port: int, *, name: str, trust: ssl.SSLContext) -> Streams:
        asked.append((address, port, name))
        assert trust.check_hostname
        return await company.connect(address, port)

    company = Company(UNKNOWN, ["10.9.9.9"])
    monkeypatch.setattr(subject, "connect_over_tls", over_tls)
    await company.behind(proxy=replace(PROXY, tls=True)).dial("a.test", 443)
    assert (asked, company.heard) == ([("10.9.9.9", 3128, PROXY.host)], QUESTION)


async def test_connects_directly_by_default() -> None:
    world = World(["203.0.113.1"])
    await Dialler(limits=LIMITS, resolve=world.resolve, connect=world.connect).dial("a.test", 443)
    assert world.dialled == [("203.0.113.1", 443)]


@pytest.mark.parametrize(
    ("address", "port", "wanted"),
    [
        ("127.0.0.1", 8080, True),
        ("127.0.0.1", 443, True),
        ("127.9.9.9", 8080, True),
        ("127.0.0.1", 8081, False),
        ("198.51.100.77", 8080, False),
        ("fd00::77", 8080, False),
    ],
)
def test_matches_the_ports_of_the_proxy_on_every_address_of_the_machine(
    address: str, port: int, *, wanted: bool
) -> None:
    itself = LoopGuard()
    itself.listens("0.0.0.0:8080", "[::]:443")
    assert itself.is_at(address, port) is wanted


def test_matches_nothing_before_the_proxy_listens() -> None:
    assert not LoopGuard().is_at("127.0.0.1", 8080)
