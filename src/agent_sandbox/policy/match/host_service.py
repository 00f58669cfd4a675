"""Private places by name: the only way to an address that is not public."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from agent_sandbox.policy.errors import Ambiguous, Unfit
from agent_sandbox.policy.http.addresses import LIFTABLE, Network, holds_what_is_liftable, is_liftable, why_forbidden
from agent_sandbox.policy.http.authority import parse_authority
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policy.text import safe_repr

# In `to: host:11434`: the machine on which the engine runs, whatever its address is.
ENGINE = "host"
HOW = "write `host:11434`, `db.internal:5432`, `10.1.2.3:8080`, or `10.1.2.0/24` with `ports`"
NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NOT_A_NAME = frozenset({"localhost", ENGINE})


@dataclass(frozen=True, slots=True, kw_only=True)
class HostService:
    """Where a request for a private place leads.

    `to` is what to connect to, on `port`: a name, an address, or `ENGINE`. `network` is the one that the address was
    found in, None where the place is written by itself.
    """

    name: str
    to: str
    port: int
    network: Network | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What stands behind `to`: one place with its port, or a network."""

    to: str
    port: int | None
    network: Network | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class HostServiceRow:
    """A place as it is asked for, and where that leads; `to` is empty for a network: to the address asked for."""

    name: str
    asked: HostPattern
    ports: frozenset[int]
    to: str


def find_host_service(rows: Sequence[HostServiceRow], host: str, port: int) -> HostService | None:
    """Return the place that a canonical host and a port lead to; the highest layer's word stands."""
    for row in reversed(rows):
        if port in row.ports and row.asked.matches(host):
            network = None if row.to else ip_network(row.asked.name)
            return HostService(name=row.name, to=row.to or host, port=port, network=network)
    return None


def host_service_row(name: str, target: Target, ports: Sequence[int]) -> HostServiceRow:
    """Return how the place is asked for: the engine's machine by the name in the policy, others by their own."""
    if target.network is not None:
        asked = HostPattern(reach=Reach.NETWORK, name=str(target.network))
        return HostServiceRow(name=name, asked=asked, ports=frozenset(ports), to="")
    asked = HostPattern(reach=Reach.EXACT, name=name if target.to == ENGINE else target.to)
    return HostServiceRow(name=name, asked=asked, ports=frozenset({target.port or 0}), to=target.to)


def parse_host_service_name(text: str) -> str:
    """Return the name, or raise Unfit."""
    if not NAME.fullmatch(text):
        raise Unfit(f"{safe_repr(text)} is no name of a host service", "write one word of a-z, 0-9, `-`: `ollama`")
    if text in NOT_A_NAME:
        raise Unfit(f"`{text}` cannot be asked for through the proxy", "choose another name, such as `ollama`")
    return text


def parse_target(text: str) -> Target:
    """Return what `to` says, or raise Unfit.

    >>> parse_target("host:11434")
    Target(to='host', port=11434, network=None)
    """
    if "://" in text:
        raise Unfit(f"{safe_repr(text)} is a URL", HOW)
    if "/" in text:
        return Target(to="", port=None, network=_network(text))
    try:
        to, port = parse_authority(text, default_port=None)
    except Ambiguous as doubt:
        raise Unfit(f"{safe_repr(text)} is no target: {doubt}", HOW) from doubt
    _refuse_what_nothing_lifts(to, port)
    return Target(to=to, port=port)


def _refuse_what_nothing_lifts(to: str, port: int) -> None:
    if to == "localhost" or to.endswith(".localhost"):
        raise Unfit(f"`{to}` is the proxy itself", f"the engine's machine is `host:{port}`")
    if not is_address(to) or is_liftable(to):
        return
    kind = why_forbidden(to)
    if kind is None:
        raise Unfit(f"{to} is a public address", "it goes under `domains`")
    hint = f"the engine's machine is `host:{port}`" if kind == "loopback" else "take it out: no policy lifts that"
    raise Unfit(f"{to} is no private address ({kind})", hint)


def _network(text: str) -> Network:
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise Unfit(f"{safe_repr(text)} is no network", HOW) from error
    if text.partition("/")[0].strip("[]") != str(network.network_address):
        raise Unfit(f"{safe_repr(text)} is not written as its network is", f"write `{network}`")
    if not holds_what_is_liftable(network):
        hint = f"write one within {', '.join(map(str, LIFTABLE))}"
        raise Unfit(f"`{network}` is no private network", hint)
    return network
