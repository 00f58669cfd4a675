"""What the firewall refused: destinations, counts and times, read from the kernel's sets in the firewall container.

The agent chooses the destinations, and nothing else: addresses, numbers and names of protocols are parsed strictly.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from ipaddress import IPv4Address
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.protocol import Driver
from agent_sandbox.features.proxy.decisions import local_time
from agent_sandbox.stack.containers import REFUSALS

# As in images/agent/lib/refusals.sh: how long a set keeps an element after its last packet.
KEPT = timedelta(days=1)
PROTOCOL = re.compile(r"[a-z0-9-]{1,16}")
AT_PROXY = "the address of every allowed name; the proxy serves HTTP and HTTPS there"
AT_START = "when the agent container started: the start checks try it"
# The firewall's and the agent's containers are created together, unless only the agent's has to be recreated.
STARTED_TOGETHER, START_CHECKS = timedelta(minutes=1), timedelta(seconds=15)
WHOLE_SECOND = timedelta(seconds=1)  # the kernel's times have no parts of it
# What they try in images/agent/probe.py, besides the proxy's other ports.
CHECKED = frozenset({"127.0.0.11", "169.254.169.254", "198.51.100.1"})
NOW = partial(datetime.now, UTC)
NOT_COUNTED = (
    "what the firewall refuses is not counted; agent-sandbox logs firewall says why,"
    " and agent-sandbox up updates a stack of an earlier version"
)


class Refusal(Struct, frozen=True, kw_only=True):
    """The refused packets to one destination; if the sets were full, to one address or of one protocol."""

    time: datetime  # of the last one
    protocol: str
    address: str = ""
    port: int | None = None
    count: int
    at_proxy: bool = False
    # The last one came when the agent container alone was started, so it is probably a start check.
    at_start: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`; an unknown value is null."""
        return {
            "time": self._time,
            "protocol": self.protocol,
            "address": self.address or None,
            "port": self.port,
            "count": self.count,
            "at_start": self.at_start,
        }

    def as_text(self, *, shape: str, zone: tzinfo | None = None) -> str:
        """Return it as one line, in `zone` or the local time zone."""
        time = local_time(self._time, zone=zone, shape=shape)
        times = "once" if self.count == 1 else f"{self.count} times"
        note = AT_START if self.at_start else AT_PROXY if self.at_proxy else ""
        return f"{time}  {self._where()}  {times}{f'  ({note})' if note else ''}"

    @property
    def _time(self) -> str:
        return self.time.isoformat(timespec="seconds").replace("+00:00", "Z")

    def _where(self) -> str:
        if not self.address:
            return f"{self.protocol} to other addresses"
        if self.port is not None:
            return f"{self.protocol} {self.address}:{self.port}"
        return f"{self.protocol} {self.address}{' on other ports' if self.protocol in {'tcp', 'udp'} else ''}"


class Refusals(Struct, frozen=True, kw_only=True):
    """The packets that the firewall refused since it started, at most a day ago, the newest last."""

    counted: bool = False
    last: tuple[Refusal, ...] = ()
    # Packets to IPv6 addresses, which the kernel refused for lack of a route.
    ipv6: int = 0

    @property
    def agents(self) -> tuple[Refusal, ...]:
        """The refusals that are certainly not the sandbox's own checks."""
        return tuple(one for one in self.last if not one.at_start)

    @property
    def total(self) -> int:
        """How many packets of the agent were refused."""
        return sum(one.count for one in self.agents)


def read_refusals(
    driver: Driver, found: Sequence[Container], *, clock: Callable[[], datetime] = NOW
) -> Refusals | None:
    """Ask the running firewall container, if there is one; it may be of another version, or not able to count."""
    firewall = next((one for one in found if one.service == "firewall" and one.state == "running"), None)
    if firewall is None:
        return None
    done = driver.spawn(firewall, REFUSALS).capture()
    # The times are in whole seconds before the answer, so they are at most that much too early.
    refusals = parse_refusals(done.out, now=clock()) if done.code == 0 else Refusals()
    agent = next((one for one in found if one.service == "agent"), None)
    return _without_checks(refusals, firewall, agent)


def _without_checks(refusals: Refusals, firewall: Container, agent: Container | None) -> Refusals:
    """Mark what a new agent container's start checks tried; beside a new firewall they are not counted at all."""
    if not (agent and agent.started and firewall.started) or agent.started - firewall.started < STARTED_TOGETHER:
        return refusals
    first, end = agent.started - WHOLE_SECOND, agent.started + START_CHECKS
    marked = (
        replace(one, at_start=True) if first <= one.time <= end and (one.at_proxy or one.address in CHECKED) else one
        for one in refusals.last
    )
    return replace(refusals, last=tuple(marked))


def parse_refusals(text: str, *, now: datetime) -> Refusals:
    """Return what the container's program printed; other output means that nothing is counted."""
    try:
        listed, proxy, *ipv6 = _parts(text)
        sets = {one["set"]["name"]: one["set"].get("elem", []) for one in listed if "set" in one}
        last = sorted(_refusals(sets, proxy, now), key=lambda one: one.time)
        return Refusals(counted=bool(sets["started"]), last=tuple(last), ipv6=int(ipv6[0]) if ipv6 else 0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Refusals()


def _parts(text: str) -> tuple[Any, ...]:
    said, _, rest = text.partition("\n")
    return (read_json(said)["nftables"], *rest.split())


def _refusals(sets: Mapping[str, Sequence[Mapping[str, Any]]], proxy: str, now: datetime) -> Iterator[Refusal]:
    for name in ("places", "addresses", "protocols"):
        for row in sets[name]:
            element = row["elem"]
            key = element["val"]["concat"] if name != "protocols" else [element["val"]]
            protocol, address = str(key[0]), str(IPv4Address(key[1])) if len(key) > 1 else ""
            if not PROTOCOL.fullmatch(protocol):
                raise ValueError
            yield Refusal(
                time=(now - KEPT + timedelta(seconds=int(element["expires"]))).astimezone(UTC),
                protocol=protocol,
                address=address,
                port=int(key[2]) if name == "places" else None,
                count=int(element["counter"]["packets"]),
                at_proxy=address == proxy,
            )
