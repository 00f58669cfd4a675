"""Host services: the only way to a private address."""

import re
from collections.abc import Sequence
from ipaddress import ip_network

from msgspec import Struct

from agent_sandbox.policy.errors import Ambiguous, InvalidValue
from agent_sandbox.policy.http.addresses import LIFTABLE, Network, is_liftable, is_liftable_network, why_forbidden
from agent_sandbox.policy.http.authority import parse_authority
from agent_sandbox.policy.http.host import is_address
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach
from agent_sandbox.policy.text import MACHINE, safe_repr

# In `to: host:11434`: the machine of the engine, whatever its address is.
ENGINE = "host"
HOW = "write `host:11434`, `wiki.internal:443`, `10.1.2.3:8080`, or `10.1.2.0/24` with `ports`"
NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NOT_A_NAME = frozenset({"localhost", ENGINE})


class HostService(Struct, frozen=True, kw_only=True):
    """The host service that a request leads to.

    The proxy connects to `to` (a name, an address or `ENGINE`) on `port`. `network` is the network of the policy that
    contains the address, None if the policy names a single host.
    """

    name: str
    to: str
    port: int
    network: Network | None = None


class Target(Struct, frozen=True, kw_only=True):
    """The value of `to`: a host with its port, or a network."""

    to: str
    port: int | None
    network: Network | None = None


class HostServiceRow(Struct, frozen=True, kw_only=True, order=True):
    """The host and ports of requests to a host service, and its target; `to` is empty for a network."""

    name: str
    asked: HostPattern
    ports: frozenset[int]
    to: str


def find_host_service(rows: Sequence[HostServiceRow], host: str, port: int) -> HostService | None:
    """Return the host service for a canonical host and a port, or None; that of the highest layer wins."""
    for row in reversed(rows):
        if port in row.ports and row.asked.matches(host):
            network = None if row.to else ip_network(row.asked.name)
            return HostService(name=row.name, to=row.to or host, port=port, network=network)
    return None


def host_service_row(name: str, target: Target, ports: Sequence[int]) -> HostServiceRow:
    """Return the row of a host service. Clients use the policy's name for the engine's machine."""
    if target.network is not None:
        asked = HostPattern(reach=Reach.NETWORK, name=str(target.network))
        return HostServiceRow(name=name, asked=asked, ports=frozenset(ports), to="")
    asked = HostPattern(reach=Reach.EXACT, name=name if target.to == ENGINE else target.to)
    return HostServiceRow(name=name, asked=asked, ports=frozenset({target.port or 0}), to=target.to)


def parse_host_service_name(text: str) -> str:
    """Return the name of a host service, or raise InvalidValue."""
    if not NAME.fullmatch(text):
        raise InvalidValue(f"not a host service name: {safe_repr(text)}", "use a-z, 0-9 and `-`, such as `ollama`")
    if text in NOT_A_NAME:
        raise InvalidValue(f"requests to `{text}` never reach the proxy", "choose another name, such as `ollama`")
    return text


def parse_target(text: str) -> Target:
    """Return the target, or raise InvalidValue.

    >>> parse_target("host:11434")
    Target(to='host', port=11434, network=None)
    """
    if "://" in text:
        raise InvalidValue(f"{safe_repr(text)} is a URL", HOW)
    if "/" in text:
        return Target(to="", port=None, network=_network(text))
    try:
        to, port = parse_authority(text, default_port=None)
    except Ambiguous as doubt:
        raise InvalidValue(f"not a target: {safe_repr(text)}: {doubt}", HOW) from doubt
    _require_liftable(to, port)
    return Target(to=to, port=port)


def _require_liftable(to: str, port: int) -> None:
    if to == "localhost" or to.endswith(".localhost"):
        raise InvalidValue(f"`{to}` is the proxy itself", f"{MACHINE} is `host:{port}`")
    if not is_address(to) or is_liftable(to):
        return
    kind = why_forbidden(to)
    if kind is None:
        raise InvalidValue(f"{to} is a public address", "put it under `domains`")
    hint = f"{MACHINE} is `host:{port}`" if kind == "loopback" else "remove it: no policy can allow it"
    raise InvalidValue(f"{to} is not a private address ({kind})", hint)


def _network(text: str) -> Network:
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise InvalidValue(f"not a network: {safe_repr(text)}", HOW) from error
    if text.partition("/")[0].strip("[]") != str(network.network_address):
        raise InvalidValue(f"{safe_repr(text)} has host bits set", f"write `{network}`")
    if not is_liftable_network(network):
        hint = f"write one within {', '.join(map(str, LIFTABLE))}"
        raise InvalidValue(f"`{network}` is not a private network", hint)
    return network
